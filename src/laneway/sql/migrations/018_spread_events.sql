-- A push to several lanes is one event: part_lane says which lanes, part_first and part_last which seqs of each. Such an
-- event has no lane_id of its own, and is found by its queue and the time at which its messages were pushed.
-- largest is the size of its largest body in bytes, or a little more: most need not be looked at for large ones.
alter table laneway.event add column part_lane int[], add column largest int;
do $$
declare
  v_segment int;
begin
  for v_segment in select s.segment from laneway.segment s where pg_catalog.to_regclass(format('laneway.event_%s', s.segment)) is not null loop
    execute format('create index event_%s_spread on laneway.event_%s (queue_id, at) where part_lane is not null', v_segment, v_segment);
  end loop;
end $$;

-- Keys before scopes: nearly all differ in their key. Expired ones are swept in the order they lie in, from a place that
-- goes round and round: an index by expiry cost every push more than it saved the sweep.
alter table laneway.dedup_key drop constraint dedup_key_pkey, add primary key (queue_id, key, scope);
drop index laneway.dedup_key_expiry;
create sequence laneway.dedup_place minvalue 0 start 0;
