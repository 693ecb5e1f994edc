-- Refuses bodies over a queue's limit, naming the first. Locks: none. Errors: LW413.
create or replace function laneway.check_sizes(p_queue text, p_max_bytes int, p_bodies json[]) returns void
language plpgsql set search_path = '' as $$
declare
  v_item record;
begin
  select b.n - 1 as idx, octet_length(b.body::text) as bytes into v_item
    from unnest(p_bodies) with ordinality b (body, n) where octet_length(b.body::text) > p_max_bytes order by b.n limit 1;
  if found then
    raise exception 'message % is % bytes, queue "%" takes at most %', v_item.idx, v_item.bytes, p_queue, p_max_bytes
      using errcode = 'LW413', hint = 'Send less, or raise the queue''s max_bytes.';
  end if;
end $$;
