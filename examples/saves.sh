#!/bin/bash
# Counts to 600, one step per second, and saves the count when the scheduler asks for a checkpoint.
# Submit it with a shared directory for the checkpoint:
#   synapse-cli submit --checkpoint signal=USR1,grace=1m -e CHECKPOINT_DIR=$PWD examples/saves.sh
file=$CHECKPOINT_DIR/count
step=$(cat "$file" 2>/dev/null || echo 0)
save() {
	. "$SYNAPSE_NOTICE" # sets request
	echo "$step" >"$file.new" && mv "$file.new" "$file" &&
		echo "$request $step" >>"$SYNAPSE_CHECKPOINT_DIR/ack.$SYNAPSE_RANK"
}
trap save USR1
echo "attempt $SYNAPSE_RUN from step $step"
while ((step < 600)); do
	sleep 1 & wait $! # bash runs a trap at once while it waits
	((++step))
done
