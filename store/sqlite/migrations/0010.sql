-- Schema version 10: UIDs are assigned when jobs start. The column holds the number of the last assigned UID, which was
-- the arrival of its job before. Breaking: an earlier scheduler would run a waiting job without a UID as nobody.
ALTER TABLE leader ADD COLUMN uid_turn INTEGER NOT NULL DEFAULT 0;
UPDATE leader SET uid_turn = arrival;
