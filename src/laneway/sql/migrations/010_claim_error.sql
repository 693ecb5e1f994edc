-- Why a message that is handed out again, out of turn, failed the last time.
alter table laneway.claim add column error text;
