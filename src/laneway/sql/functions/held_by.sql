-- How many messages a consumer has in hand. Locks: none. Errors: none.
create or replace function laneway.held_by(p_consumer text) returns bigint
language sql stable set search_path = '' as $$
  select coalesce(sum(laneway.size_of(c.pending)), 0)::bigint from laneway.claim c where c.consumer = p_consumer and c.until > clock_timestamp();
$$;
