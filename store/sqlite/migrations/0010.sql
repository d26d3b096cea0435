-- Uids are given when jobs start, version 10: the turn of the last one given, which until now was
-- its job's arrival. Breaking: an earlier scheduler would run a waiting job that has no uid yet as nobody.
ALTER TABLE leader ADD COLUMN uid_turn INTEGER NOT NULL DEFAULT 0;
UPDATE leader SET uid_turn = arrival;
