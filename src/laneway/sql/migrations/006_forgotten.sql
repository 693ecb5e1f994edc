-- Readers of deleted groups whose rows are still to be removed: a wide queue has more readers than one transaction can lock.
create table laneway.forgotten (
  reader_id int primary key
);
