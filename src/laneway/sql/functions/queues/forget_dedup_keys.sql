-- Forget the dedup keys of a queue: messages that are pushed with them are new.
-- Locks: the keys' rows, in order of key. Errors: none.
create or replace function laneway.forget_dedup_keys(p_queue_id int) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform
     from laneway.dedup_key k
    where k.queue_id = p_queue_id
    order by k.key collate "C", k.scope collate "C"
      for update;
  delete from laneway.dedup_key where queue_id = p_queue_id;
end $$;
