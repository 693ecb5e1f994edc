-- A claim may have thousands of parts, in as many lanes: those of one lane are found by the key.
alter table laneway.claim drop constraint claim_pkey;
alter table laneway.claim add primary key (token, lane_id, part);
