-- Who leads stands beside the epoch, version 4: a replica that takes over may have
-- lost the last epoch, and give it out a second time. A leader of the version
-- before leaves the name of the last one who wrote it, and a higher epoch.
ALTER TABLE synapse.leader ADD COLUMN holder text NOT NULL DEFAULT '';
