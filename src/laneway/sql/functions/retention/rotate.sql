-- Keep the log's segments in supply: create the first pair, open the next pair when the current one is old or large
-- enough (or with p_force), and create one pair ahead. The odd, UNLOGGED segment of a pair exists only if a queue needs
-- it.
-- From the 17th open pair on, segments must get older or larger: twice as much for every two more, up to 1024 times.
-- Return the current logged segment.
-- Locks: the advisory lock on segment. Errors: none.
create or replace function laneway.rotate(p_force boolean default false) returns int
language plpgsql
set search_path = ''
as $$
declare
  v_policy laneway.policy;
  v_pair int; -- segments 2 * pair and 2 * pair + 1
  v_halves int := case when exists (select from laneway.queue q where q.kind = 'unlogged') then 1 else 0 end;
  v_half int;
  v_opened timestamptz;
  v_bytes bigint;
  v_stretch float8;
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.segment'::regclass::oid::int, 0);
  select p.* into v_policy from laneway.policy p;
  select s.segment / 2, s.opened_at into v_pair, v_opened
    from laneway.segment s
   where s.opened_at is not null
     and laneway.is_logged(s.segment)
   order by s.segment desc
   limit 1;

  -- The first pair, or the next one.
  if v_pair is null then
    v_pair := 1;
    perform laneway.create_segment(2);
    update laneway.segment set opened_at = clock_timestamp() where segment = 2;
  else
    -- Every statement on the log gets slower with each segment, so make them longer rather than more.
    v_stretch := 2 ^ least(10, greatest(0, (
      (select count(*)
         from laneway.segment s
        where laneway.is_logged(s.segment)
          and s.opened_at is not null) - 15) / 2));
    select sum(pg_catalog.pg_total_relation_size(format('laneway.message_%s', s.segment)::regclass)) into v_bytes
      from laneway.segment s
     where s.segment / 2 = v_pair;
    if p_force
       or v_bytes >= v_policy.segment_bytes * v_stretch
       -- Compare seconds: an interval times v_stretch could overflow.
       or (extract(epoch from clock_timestamp() - v_opened)
             >= extract(epoch from v_policy.segment_interval) * v_stretch
           and laneway.segment_used(v_pair * 2)) then
      for v_half in 0..v_halves loop
        if not exists (select from laneway.segment s where s.segment = v_pair * 2 + 2 + v_half) then
          perform laneway.create_segment(v_pair * 2 + 2 + v_half);
        end if;
      end loop;
      update laneway.segment
         set closed_at = clock_timestamp()
       where segment / 2 = v_pair
         and opened_at is not null;
      update laneway.segment
         set opened_at = clock_timestamp()
       where segment / 2 = v_pair + 1;
      v_pair := v_pair + 1;
    end if;
  end if;

  -- What the current pair lacks, and the pair ahead.
  for v_half in 0..v_halves loop
    if not exists (select from laneway.segment s where s.segment = v_pair * 2 + v_half) then
      perform laneway.create_segment(v_pair * 2 + v_half);
      update laneway.segment set opened_at = clock_timestamp() where segment = v_pair * 2 + v_half;
    end if;
    if not exists (select from laneway.segment s where s.segment = v_pair * 2 + 2 + v_half) then
      perform laneway.create_segment(v_pair * 2 + 2 + v_half);
    end if;
  end loop;
  return v_pair * 2;
end $$;
