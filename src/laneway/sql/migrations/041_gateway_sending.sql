-- The lease of the message whose call was begun last, so that the same lease may begin it again if the answer is lost.
alter table laneway.gateway_transaction add column sending_token uuid;
