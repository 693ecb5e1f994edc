-- Lock one part of a claim, or all its parts (p_whole). Return it as it is under the lock; with p_whole the first part,
-- with what is pending in all of them. Return null if it is gone.
-- p_expired: lock it only if the lease of each part ended by p_now, and do not wait: return null if another transaction
-- has locked a part.
-- Called by return_messages, under its settings.
-- Locks: the claim's rows, in order of part; with p_whole the caller holds the reader's lock. Errors: none.
create or replace function laneway.lock_claim_parts(
  p_claim laneway.claim,
  p_whole boolean,
  p_expired boolean,
  p_now timestamptz)
returns laneway.claim
language plpgsql as $$
declare
  v_claim laneway.claim;
  v_locked int;
begin
  if not p_whole then
    if p_expired then
      select c.*
        into v_claim
        from laneway.claim c
       where c.token = p_claim.token
         and c.lane_id = p_claim.lane_id
         and c.part = p_claim.part
         and (c.until <= p_now) is true
         for update skip locked;
    else
      select c.*
        into v_claim
        from laneway.claim c
       where c.token = p_claim.token
         and c.lane_id = p_claim.lane_id
         and c.part = p_claim.part
         for update;
    end if;
    return v_claim;
  end if;

  loop
    if p_expired then
      perform
         from laneway.claim c
        where c.token = p_claim.token
          and (c.until <= p_now) is true
        order by c.part
          for update skip locked;
    else
      perform
         from laneway.claim c
        where c.token = p_claim.token
        order by c.part
          for update;
    end if;
    get diagnostics v_locked = row_count;
    exit when v_locked = (select count(*) from laneway.claim c where c.token = p_claim.token);
    if p_expired then
      return null;
    end if;
  end loop;
  select c.*
    into v_claim
    from laneway.claim c
   where c.token = p_claim.token
   order by c.part
   limit 1;
  v_claim.pending := (select range_agg(c.pending) from laneway.claim c where c.token = p_claim.token);
  return v_claim;
end $$;
