-- Schema version 4: the leader's name in addition to the epoch. A replica may lose the last epoch in a failover and
-- issue it again. A leader of the previous version keeps the name of the last writer, and writes a higher epoch.
ALTER TABLE synapse.leader ADD COLUMN holder text NOT NULL DEFAULT '';
