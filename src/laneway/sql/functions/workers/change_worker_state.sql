-- Brings a worker from one of the states p_from to p_to; p_asked: what it is to become then. p_idle: only while it
-- has nothing in hand. Answers the state it was in, the one it is in now, and how much it has in hand: where the
-- first is not one of p_from, or it has something in hand and may not, nothing changed.
-- Locks: the row. Errors: LW404 the worker is not known.
create or replace function laneway.change_worker_state(p_worker_id text, p_from text[], p_to text, p_asked text default null, p_idle boolean default false)
returns table (was text, state text, held bigint)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  select w.state into was from laneway.worker w where w.worker_id = p_worker_id for update;
  if not found then
    raise exception 'worker "%" does not exist', p_worker_id using errcode = 'LW404', hint = 'It was never registered, or it was purged.';
  end if;
  held := laneway.count_in_flight_of_worker(p_worker_id);
  state := was;
  if was = any (p_from) and not (p_idle and held > 0) then
    state := p_to;
    update laneway.worker w set state = p_to, asked = p_asked, stopped_at = case when p_to = 'stopped' then clock_timestamp() end where w.worker_id = p_worker_id;
  end if;
  return next;
end $$;
