-- How far the audits of schedulers have got, version 9: of each the last line that it told of. A
-- scheduler of the version before tells of none.
CREATE TABLE synapse.head (
  scheduler text COLLATE "C" PRIMARY KEY,
  line      bigint NOT NULL,
  hash      text NOT NULL
);
