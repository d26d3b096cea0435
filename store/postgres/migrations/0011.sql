-- Uids are given when jobs start, version 11: the turn of the last one given, which until now was
-- its job's arrival. Breaking: an earlier scheduler would run a waiting job that has no uid yet as nobody.
ALTER TABLE synapse.leader ADD COLUMN uid_turn bigint NOT NULL DEFAULT 0;
UPDATE synapse.leader SET uid_turn = arrival;
