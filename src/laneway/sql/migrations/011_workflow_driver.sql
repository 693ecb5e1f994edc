-- The lock that drives a run now: whoever drove it before stops at its next step.
alter table laneway.workflow add column driver text;
