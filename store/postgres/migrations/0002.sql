-- Schema version 2: the cluster of these records. The first scheduler creates it, and nodes accept only schedulers of
-- this cluster.
CREATE TABLE synapse.cluster (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id  text NOT NULL CHECK (id <> '')
);
