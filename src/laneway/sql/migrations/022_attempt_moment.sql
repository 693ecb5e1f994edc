-- When an attempt to receive got what it did: receipt handles carry it, and a repetition gets the same ones.
alter table laneway.receive_attempt add column received bigint;        -- in milliseconds of Unix time
update laneway.receive_attempt set received = floor(extract(epoch from expires_at - interval '5 minutes') * 1000);
alter table laneway.receive_attempt alter column received set not null;
