-- Which cluster these records are of, version 2. Made once, by whichever
-- scheduler comes first; machines hold every scheduler to it.
CREATE TABLE synapse.cluster (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id  text NOT NULL CHECK (id <> '')
);
