-- Why a message of the outbox could not be moved to its lane; it is passed by until somebody looks.
alter table laneway.outbox add column error text;
