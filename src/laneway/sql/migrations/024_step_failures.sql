-- What a step failed with, where the workflow may have handled it: a run that goes on meets the same failure again.
alter table laneway.workflow_step add column failure json;
