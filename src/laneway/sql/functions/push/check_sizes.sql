-- Refuse bodies that are larger than a queue allows. The error names the first one, by its index from 0.
-- p_max_bytes: the limit of the queue in bytes.
-- Locks: none. Errors: LW413 a body is too large.
create or replace function laneway.check_sizes(p_queue text, p_max_bytes int, p_bodies json[]) returns void
language plpgsql set search_path = '' as $$
declare
  v_message record;
begin
  select b.n - 1 as idx, octet_length(b.body::text) as bytes
    into v_message
    from unnest(p_bodies) with ordinality b (body, n)
   where octet_length(b.body::text) > p_max_bytes
   order by b.n
   limit 1;
  if found then
    raise exception 'message % is % bytes, queue "%" allows at most %',
      v_message.idx, v_message.bytes, p_queue, p_max_bytes
      using errcode = 'LW413',
            detail = p_queue,
            hint = 'Send less, or raise the queue''s max_bytes.';
  end if;
end $$;
