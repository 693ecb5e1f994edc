-- Numbers for parts that are split off a claim: consumers who share a token split it at the same time.
create sequence laneway.claim_part as smallint minvalue 10001 cycle cache 1;
