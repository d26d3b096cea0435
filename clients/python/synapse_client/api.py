"""The API's messages and calls, written by tools/protogen from the .proto files: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Iterable, List, Optional

from .codec import Answers, Message, Transport, many, one, plain


class AfterEnd(str, Enum):
    """AfterEnd is the result of an earlier job that a dependent job requires."""
    UNSPECIFIED = "AFTER_END_UNSPECIFIED"  # same as AFTER_END_OK
    OK = "AFTER_END_OK"  # the earlier job succeeded
    ANY = "AFTER_END_ANY"
    FAILED = "AFTER_END_FAILED"  # the earlier job ended without success
    STARTED = "AFTER_END_STARTED"  # the earlier job, which is no array, has started or ended
    ELEMENT = "AFTER_END_ELEMENT"  # of an array: the element of the earlier array with the same index succeeded


class Basis(str, Enum):
    """Basis is the source of an estimated start."""
    UNSPECIFIED = "BASIS_UNSPECIFIED"
    LIMITS = "BASIS_LIMITS"  # the time limits of all earlier jobs
    LEARNED = "BASIS_LEARNED"  # the run times of finished jobs that are similar to the earlier jobs
    NONE = "BASIS_NONE"  # no estimate is possible


class Cause(str, Enum):
    UNSPECIFIED = "CAUSE_UNSPECIFIED"
    SUCCEEDED = "CAUSE_SUCCEEDED"
    MEMBER_FAILED = "CAUSE_MEMBER_FAILED"
    MACHINE_LOST = "CAUSE_MACHINE_LOST"
    EXPIRED = "CAUSE_EXPIRED"
    START_TIMEOUT = "CAUSE_START_TIMEOUT"
    PREPARE_FAILED = "CAUSE_PREPARE_FAILED"
    PREPARE_TIMEOUT = "CAUSE_PREPARE_TIMEOUT"
    LAUNCH_FAILED = "CAUSE_LAUNCH_FAILED"
    REBOOTED = "CAUSE_REBOOTED"
    CANCELLED = "CAUSE_CANCELLED"
    TIME_LIMIT = "CAUSE_TIME_LIMIT"
    DRAINED = "CAUSE_DRAINED"
    REMOVED = "CAUSE_REMOVED"
    PREEMPTED = "CAUSE_PREEMPTED"
    GPU_FAULT = "CAUSE_GPU_FAULT"
    REQUEUED = "CAUSE_REQUEUED"
    START_BY = "CAUSE_START_BY"  # the attempt ran on backfilled capacity and missed the latest time for its start barrier
    UNWELL = "CAUSE_UNWELL"  # a health check of a node failed before the barrier; agents receive MACHINE_LOST instead


class Code(str, Enum):
    UNSPECIFIED = "CODE_UNSPECIFIED"
    OK = "CODE_OK"
    INVALID = "CODE_INVALID"
    NOT_FOUND = "CODE_NOT_FOUND"
    CONFLICT = "CODE_CONFLICT"
    NOT_ALLOWED = "CODE_NOT_ALLOWED"
    INFEASIBLE = "CODE_INFEASIBLE"
    UNAVAILABLE = "CODE_UNAVAILABLE"
    EXHAUSTED = "CODE_EXHAUSTED"


class EndedBy(str, Enum):
    """EndedBy is a party other than the leader, the rank and the kernel's memory limits that ended a rank."""
    UNSPECIFIED = "ENDED_BY_UNSPECIFIED"
    HOST = "ENDED_BY_HOST"  # a process outside the rank's container, or the host's shutdown
    NO_CONTACT = "ENDED_BY_NO_CONTACT"  # stopWhenLost: the node lost contact with the leader


class ExitKind(str, Enum):
    UNSPECIFIED = "EXIT_KIND_UNSPECIFIED"
    EXITED = "EXIT_KIND_EXITED"  # the process ran and has ended; see code or signal
    LAUNCH_FAILED = "EXIT_KIND_LAUNCH_FAILED"  # code 125; never caused by the user
    PREPARE_FAILED = "EXIT_KIND_PREPARE_FAILED"
    NEVER_STARTED = "EXIT_KIND_NEVER_STARTED"
    REBOOTED = "EXIT_KIND_REBOOTED"  # the node rebooted, so the process has ended
    SUPERVISOR_LOST = "EXIT_KIND_SUPERVISOR_LOST"  # the process has ended, but the result is unknown
    REMOVED = "EXIT_KIND_REMOVED"  # an operator confirmed that the node no longer exists


class FailureClass(str, Enum):
    """FailureClass is the kind of cause of a failed attempt."""
    UNSPECIFIED = "FAILURE_CLASS_UNSPECIFIED"  # the attempt did not fail, or an older version wrote this
    USER = "FAILURE_CLASS_USER"
    NODE = "FAILURE_CLASS_NODE"
    GPU = "FAILURE_CLASS_GPU"
    NETWORK = "FAILURE_CLASS_NETWORK"
    STORAGE = "FAILURE_CLASS_STORAGE"
    PREEMPTED = "FAILURE_CLASS_PREEMPTED"
    TIMEOUT = "FAILURE_CLASS_TIMEOUT"
    OUT_OF_MEMORY = "FAILURE_CLASS_OUT_OF_MEMORY"
    UNKNOWN = "FAILURE_CLASS_UNKNOWN"


class Fault(str, Enum):
    """Fault is the party that caused a rank to never run. If an agent names no fault, FAULT_UNKNOWN applies."""
    UNSPECIFIED = "FAULT_UNSPECIFIED"  # the rank ran, or its agent is older than this field
    JOB = "FAULT_JOB"  # caused only by the job's spec and the node's policy; every other attempt would end in the same way
    MACHINE = "FAULT_MACHINE"  # not caused by anything that the job names
    UNKNOWN = "FAULT_UNKNOWN"  # something that the job names is not available on this node


class GpuClass(str, Enum):
    """GpuClass is the use of a GPU, or the reason why it is unused."""
    UNSPECIFIED = "GPU_CLASS_UNSPECIFIED"
    PRODUCTIVE = "GPU_CLASS_PRODUCTIVE"  # a gang that has passed its start barrier holds it
    STARTING = "GPU_CLASS_STARTING"
    STOPPING = "GPU_CLASS_STOPPING"
    LOST = "GPU_CLASS_LOST"  # it was productive, but the work was lost with its gang
    KEPT = "GPU_CLASS_KEPT"  # free, and reserved for a waiting job
    IDLE_WANTED = "GPU_CLASS_IDLE_WANTED"  # free, and a waiting job could use its type
    IDLE_UNWANTED = "GPU_CLASS_IDLE_UNWANTED"
    BROKEN = "GPU_CLASS_BROKEN"
    CLOSED = "GPU_CLASS_CLOSED"  # free, and an operator made its node unschedulable


class GpuTimeKind(str, Enum):
    """GpuTimeKind is the kind of subject of a row of GPU time."""
    UNSPECIFIED = "GPU_TIME_KIND_UNSPECIFIED"
    CLUSTER = "GPU_TIME_KIND_CLUSTER"
    OWNER = "GPU_TIME_KIND_OWNER"
    QUEUE = "GPU_TIME_KIND_QUEUE"


class HangAction(str, Enum):
    """HangAction is what follows when no rank of a job makes progress any more."""
    UNSPECIFIED = "HANG_ACTION_UNSPECIFIED"  # same as HANG_ACTION_REPORT
    REPORT = "HANG_ACTION_REPORT"  # the job's status names the rank that stopped first
    RESTART = "HANG_ACTION_RESTART"  # also ends the attempt, which counts against restart.limit
    NONE = "HANG_ACTION_NONE"  # hangs are not detected


class IdleAction(str, Enum):
    """IdleAction is an action for running jobs of a queue that hold resources and do nothing."""
    UNSPECIFIED = "IDLE_ACTION_UNSPECIFIED"
    REPORT = "IDLE_ACTION_REPORT"  # an event
    SIGNAL = "IDLE_ACTION_SIGNAL"  # an event, and a notice to the tasks with the warning signal of the job


class JobState(str, Enum):
    UNSPECIFIED = "JOB_STATE_UNSPECIFIED"
    QUEUED = "JOB_STATE_QUEUED"
    ACTIVE = "JOB_STATE_ACTIVE"  # an attempt is committed and has not ended
    SUCCEEDED = "JOB_STATE_SUCCEEDED"
    FAILED = "JOB_STATE_FAILED"
    CANCELLED = "JOB_STATE_CANCELLED"
    TIMED_OUT = "JOB_STATE_TIMED_OUT"


class Launch(str, Enum):
    """Launch is the program that starts a task's processes. It decides the variables in the environment (docs/reference/environment.md)."""
    UNSPECIFIED = "LAUNCH_UNSPECIFIED"  # same as LAUNCH_AUTO
    AUTO = "LAUNCH_AUTO"  # all variables that do not mislead any launcher
    TORCHRUN = "LAUNCH_TORCHRUN"
    JAX = "LAUNCH_JAX"  # one process per task, with all of the task's devices
    SLURM = "LAUNCH_SLURM"  # the environment of a Slurm task
    MPI = "LAUNCH_MPI"  # mpirun, on rank 0
    DEEPSPEED = "LAUNCH_DEEPSPEED"
    NONE = "LAUNCH_NONE"  # only the task's identity and its resources


class Network(str, Enum):
    """Network is the network that a task can use."""
    UNSPECIFIED = "NETWORK_UNSPECIFIED"  # same as NETWORK_HOST
    HOST = "NETWORK_HOST"  # the node's network
    NONE = "NETWORK_NONE"  # only a separate loopback interface
    PRIVATE = "NETWORK_PRIVATE"  # a separate network with outgoing connections through the node's address and no incoming ones


class NodeVerb(str, Enum):
    UNSPECIFIED = "NODE_VERB_UNSPECIFIED"
    CORDON = "NODE_VERB_CORDON"  # stops new work on the node
    UNCORDON = "NODE_VERB_UNCORDON"  # also ends a drain
    DRAIN = "NODE_VERB_DRAIN"  # stops new work; running gangs are moved by the deadline
    REMOVE = "NODE_VERB_REMOVE"  # The node no longer exists; the operator's request is the exit confirmation of its allocations.
    NOTE = "NODE_VERB_NOTE"  # replaces the note on the node; an empty reason removes the note


class OomScope(str, Enum):
    """OomScope is the memory limit that the kernel enforced when it killed a process of a rank."""
    UNSPECIFIED = "OOM_SCOPE_UNSPECIFIED"  # no process was killed for memory, or the limit is unknown
    TASK = "OOM_SCOPE_TASK"  # the limit of the rank itself
    PARENT = "OOM_SCOPE_PARENT"  # the limit of a cgroup that contains the rank and other processes
    HOST = "OOM_SCOPE_HOST"  # the memory of the host


class OwnVerb(str, Enum):
    UNSPECIFIED = "OWN_VERB_UNSPECIFIED"
    SHOW = "OWN_VERB_SHOW"  # changes nothing
    REQUEUE = "OWN_VERB_REQUEUE"  # ends the attempt of the task
    REQUEUE_HOLD = "OWN_VERB_REQUEUE_HOLD"  # also holds the job
    CANCEL = "OWN_VERB_CANCEL"


class PreemptionRule(str, Enum):
    """PreemptionRule is the rule that allows a job to stop an attempt of another job."""
    UNSPECIFIED = "PREEMPTION_RULE_UNSPECIFIED"
    PRIORITY = "PREEMPTION_RULE_PRIORITY"  # the attempt has a lower priority in the same queue
    RECLAIM = "PREEMPTION_RULE_RECLAIM"  # the attempt's queue exceeds its quota, and the other job's queue does not
    SHORTEST = "PREEMPTION_RULE_SHORTEST"  # the attempt is expected to run much longer than the other job, in the same queue


class QueueOrder(str, Enum):
    UNSPECIFIED = "QUEUE_ORDER_UNSPECIFIED"  # inherited from the parent
    EXPECTED = "QUEUE_ORDER_EXPECTED"
    FIFO = "QUEUE_ORDER_FIFO"
    FAIR = "QUEUE_ORDER_FAIR"


class SaveAck(str, Enum):
    """SaveAck is the way in which a task acknowledges that it has saved a checkpoint."""
    UNSPECIFIED = "SAVE_ACK_UNSPECIFIED"  # same as SAVE_ACK_FILE
    FILE = "SAVE_ACK_FILE"  # a line in the file ack.RANK in $SYNAPSE_CHECKPOINT_DIR
    EXIT = "SAVE_ACK_EXIT"  # exit code 85
    SOCKET = "SAVE_ACK_SOCKET"  # a line on the socket of the task


class SaveCommit(str, Enum):
    """SaveCommit is the set of tasks that must acknowledge a checkpoint of their gang."""
    UNSPECIFIED = "SAVE_COMMIT_UNSPECIFIED"  # same as SAVE_COMMIT_ALL
    ALL = "SAVE_COMMIT_ALL"
    RANK0 = "SAVE_COMMIT_RANK0"  # only rank 0, which writes the checkpoint of the gang


class SaveState(str, Enum):
    """SaveState is the state of a request to save a checkpoint."""
    UNSPECIFIED = "SAVE_STATE_UNSPECIFIED"
    OPEN = "SAVE_STATE_OPEN"
    SAVED = "SAVE_STATE_SAVED"  # all required ranks have acknowledged the same step
    FAILED = "SAVE_STATE_FAILED"  # a rank did not acknowledge in time
    WITHDRAWN = "SAVE_STATE_WITHDRAWN"  # the reason for the request no longer exists


class SliceState(str, Enum):
    UNSPECIFIED = "SLICE_STATE_UNSPECIFIED"
    RESERVED = "SLICE_STATE_RESERVED"
    COMMITTED = "SLICE_STATE_COMMITTED"
    PREPARED = "SLICE_STATE_PREPARED"
    STARTED = "SLICE_STATE_STARTED"  # the attempt has passed its start barrier
    STOPPING = "SLICE_STATE_STOPPING"
    OVER = "SLICE_STATE_OVER"  # holds only its exits, until Forget


class Split(str, Enum):
    UNSPECIFIED = "SPLIT_UNSPECIFIED"
    WHOLE = "SPLIT_WHOLE"  # whole nodes, then one remainder
    ANY = "SPLIT_ANY"  # any free resources


class Wait(str, Enum):
    """Wait is what the threads of a task do while the task makes no progress."""
    UNSPECIFIED = "WAIT_UNSPECIFIED"  # unknown
    STOPPED = "WAIT_STOPPED"  # by a signal or a debugger
    RUNS = "WAIT_RUNS"  # uses a CPU
    PEER = "WAIT_PEER"  # waits for a socket
    LOCK = "WAIT_LOCK"  # waits for a lock or for another thread
    SLEEP = "WAIT_SLEEP"  # waits for a time
    DISK = "WAIT_DISK"  # waits for a disk or another device
    OTHER = "WAIT_OTHER"


@dataclass
class After(Message):
    """After is an earlier job that must end before the dependent job is planned."""
    job: str = plain("str")  # ID of the earlier job
    end: AfterEnd = plain("AfterEnd", AfterEnd.UNSPECIFIED)
    delay_ms: int = plain("long")  # with AFTER_END_STARTED: time from the start of the earlier job


@dataclass
class AfterKnown(Message):
    """AfterKnown is the end of an earlier job, copied into the record of the dependent job. It remains when the record of the earlier job is removed."""
    job: str = plain("str")
    state: JobState = plain("JobState", JobState.UNSPECIFIED)  # unspecified: the result is no longer known
    since_unix_ms: int = plain("long")  # Start of the earlier job, or its end if it never started; 0: unknown.


@dataclass
class Amount(Message):
    """Amount is the amount of one resource: all GPUs or the GPUs of one type in thousandths, CPU in thousandths of a core, or memory in bytes."""
    name: str = plain("str")
    amount: int = plain("long")


@dataclass
class Announcement(Message):
    """Announcement is the description of a node: resources, devices, topology, labels and abilities."""
    total: Optional[Resources] = one("Resources")
    gpus: List[Gpu] = many("Gpu")
    topology: List[Label] = many("Label")  # level and name, coarse to fine
    labels: List[Label] = many("Label")
    address: str = plain("str")  # where other members reach the node
    port_first: int = plain("int")  # range of ports from which the ledger takes rendezvous ports
    port_last: int = plain("int")
    agent_version: str = plain("str")
    vocabulary: int = plain("int")  # Same as in Hello. It is on disk here, so that a job is never placed on an agent that does not understand the job.
    networks: List[Network] = many("Network")  # networks for tasks in addition to the node's own; empty from an older version
    secret_files: bool = plain("bool")  # The node can give secrets to tasks as files. False from an older version.
    secret_env: bool = plain("bool")  # The node can give secrets to tasks as variables. False from an older version.


@dataclass
class ApplyQueues(Message):
    """client → Scheduler. Replaces the queues. Answered when the change is on disk."""
    principal: Optional[Principal] = one("Principal")
    queues: Optional[Queues] = one("Queues")
    revision: int = plain("long")  # the revision to replace; 0: any revision
    dry_run: bool = plain("bool")  # check the request and write nothing


@dataclass
class ApplyQueuesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    revision: int = plain("long")  # revision after the change; with dry_run, the revision that the change would create
    unchanged: bool = plain("bool")  # the configuration is already the current one
    removed: List[str] = many("str")  # Queues with jobs that the new configuration does not contain: they get no new jobs, and their waiting jobs continue to wait.


@dataclass
class ArrayCounts(Message):
    """ArrayCounts counts the elements of an array by state."""
    waiting: int = plain("int")  # waiting jobs, and elements that are not yet jobs
    running: int = plain("int")
    succeeded: int = plain("int")
    failed: int = plain("int")  # failed or timed out
    cancelled: int = plain("int")


@dataclass
class ArrayRecord(Message):
    """ArrayRecord is the data of an array in addition to the data of every job."""
    ended: List[ElementsEnded] = many("ElementsEnded")
    held: List[IndexRange] = many("IndexRange")  # positions that become jobs only after a release
    reach: int = plain("int")  # no position from here on has ever become a job
    hold: Optional[Deed] = one("Deed")  # Hold of the complete array. JobRecord.hold is for leaders of an older version.
    changed: List[ElementsChanged] = many("ElementsChanged")  # Changes of elements that are not yet jobs; a job has its changes in its own record.


@dataclass
class ArraySpec(Message):
    """ArraySpec is the list of indices of an array. Each index becomes one job."""
    indices: List[IndexRange] = many("IndexRange")  # in the order of their turns, each once
    max_running: int = plain("int")  # most elements that may run at once; 0: no limit


@dataclass
class AttemptRecord(Message):
    """AttemptRecord is COMMIT, and with `end` also ENDED. If an ended attempt has a place without exit on an unreachable node, that place is an unconfirmed allocation of the node."""
    job: str = plain("str")
    token: Optional[Token] = one("Token")
    number: int = plain("int")
    ranks: List[Place] = many("Place")
    rendezvous: Optional[Rendezvous] = one("Rendezvous")
    committed_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")
    end: Optional[End] = one("End")
    start_by_left_ms: int = plain("long")  # on backfilled capacity: time from COMMIT until the latest start; 0: not bounded
    first_estimate: Optional[Told] = one("Told")  # The first estimate of the job's start before this attempt. Unset if there was none.
    victims: List[Victim] = many("Victim")  # the attempts that were stopped for this one
    reserving_ms: int = plain("long")  # time from the first Reserve until all nodes had reserved; 0: an older version wrote this
    preparing_ms: int = plain("long")  # Time from COMMIT until all nodes were prepared. 0 if they never were, or if the leader changed in between.
    verdict: Optional[Verdict] = one("Verdict")  # Written with the end. Later evidence may change it until the attempt is closed. Unset if the attempt did not fail, or if an older version wrote this.
    saved: Optional[Saved] = one("Saved")  # unset: no checkpoint was acknowledged
    pending: Optional[End] = one("End")  # The end that a user requested together with a checkpoint. It comes after the checkpoint. Unset: none.
    missed_checkpoint: Optional[MissedSave] = one("MissedSave")  # Written with the end. Unset: no request to save was open, or an older version wrote this.
    inherited: Optional[Inherited] = one("Inherited")  # the attempt that this one continues in place; unset: none
    in_place_ms: int = plain("long")  # Time from the barrier of the first attempt in this place until COMMIT, which counts against the time limit.
    quick_restarts: int = plain("int")  # restarts in place before this attempt that each came soon after the one before
    stopping_ms: int = plain("long")  # time from the end of the attempt in this place before until COMMIT; 0: unknown
    spares: List[Spare] = many("Spare")  # the nodes that can replace lost ones


@dataclass
class Cancel(Message):
    """client → Scheduler → Job. Answered when the cancel is on disk."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")


@dataclass
class CancelReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")


@dataclass
class ChangeNode(Message):
    """operator → Scheduler. Answered when the change is on disk."""
    principal: Optional[Principal] = one("Principal")
    node: str = plain("str")
    verb: NodeVerb = plain("NodeVerb", NodeVerb.UNSPECIFIED)
    reason: str = plain("str")
    deadline_ms: int = plain("long")  # of a drain: how long gangs may continue to run
    at_unix_ms: int = plain("long")  # of a drain: its start, by the leader's wall clock; 0 or a past time: at once


@dataclass
class ChangeNodeReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    node: str = plain("str")


@dataclass
class Checkpoint(Message):
    """client → Scheduler → Job. Requests a checkpoint of the running attempt, which continues. Answered when the request is open. A repeated request gets the number of the open one."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")


@dataclass
class CheckpointReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    request: int = plain("long")


@dataclass
class CheckpointSpec(Message):
    """CheckpointSpec makes the scheduler request a checkpoint before it stops the job."""
    signal: int = plain("int")  # sent with the request
    grace_ms: int = plain("long")  # how long the tasks may take to save
    ack: SaveAck = plain("SaveAck", SaveAck.UNSPECIFIED)
    commit: SaveCommit = plain("SaveCommit", SaveCommit.UNSPECIFIED)


@dataclass
class Cluster(Message):
    """Cluster requests the identity of the cluster and the scheduler."""


@dataclass
class ClusterReply(Message):
    cluster_id: str = plain("str")
    epoch: int = plain("long")
    version: str = plain("str")
    levels: List[str] = many("str")  # topology levels, coarse to fine


@dataclass
class Constraint(Message):
    """Constraint is one requirement of a job that could be dropped."""
    kind: str = plain("str")  # excluded, named, apart, memory, cpu, label, gpu-type, whole, unavailable, level, reserved, others or size
    name: str = plain("str")  # of a label, a GPU type or a level


@dataclass
class CreatePass(Message):
    """CreatePass stores a user token by its hash. The client creates the secret and does not send it. A repeated request with the same hash gets the same answer."""
    hash: bytes = plain("bytes")  # SHA-256 of the secret
    role: str = plain("str")
    name: str = plain("str")  # of the user
    ttl_ms: int = plain("long")


@dataclass
class CreatePassReply(Message):
    id: str = plain("str")
    until_unix_ms: int = plain("long")


@dataclass
class Deed(Message):
    """Deed is an action of an operator or user on a job or a node."""
    by: Optional[Principal] = one("Principal")
    at_unix_ms: int = plain("long")
    reason: str = plain("str")


@dataclass
class Demand(Message):
    """Demand is what a job requests."""
    total: Optional[Resources] = one("Resources")
    each: Optional[Resources] = one("Resources")  # of one task; unset: the total is divided among nodes
    tasks: int = plain("int")
    gpu_type: str = plain("str")
    level: str = plain("str")  # topology level; one domain of it must hold the job
    preferred: bool = plain("bool")  # the level is preferred, not required
    whole_nodes: bool = plain("bool")
    separate_nodes: bool = plain("bool")  # one task per node
    user: str = plain("str")  # account of its tasks
    named_nodes: bool = plain("bool")
    excluded_nodes: bool = plain("bool")
    failed_nodes: bool = plain("bool")  # it avoids nodes on which it failed
    draining_nodes: bool = plain("bool")  # it avoids nodes that drain before it would end
    spares: int = plain("int")  # of tasks, those that are nodes without a task


@dataclass
class Dependency(Message):
    """Dependency is a job that must end before another one."""
    job: Optional[JobName] = one("JobName")
    end: AfterEnd = plain("AfterEnd", AfterEnd.UNSPECIFIED)
    phase: str = plain("str")  # empty: the job is no longer shown


@dataclass
class DryRun(Message):
    """client → Scheduler. Asks for the result that a Submit would have. The Scheduler writes and reserves nothing."""
    principal: Optional[Principal] = one("Principal")
    spec: Optional[JobSpec] = one("JobSpec")
    allow_infeasible: bool = plain("bool")
    exempt: bool = plain("bool")  # same as in Submit
    groups: List[str] = many("str")  # same as in Submit
    web_source: str = plain("str")  # same as in Submit


@dataclass
class DryRunReply(Message):
    outcome: Optional[Outcome] = one("Outcome")  # the outcome that Submit would have
    reason: str = plain("str")  # why the job would not start at once; empty: enough capacity is free
    ahead: int = plain("int")  # number of waiting jobs with an earlier turn
    nodes: List[str] = many("str")  # where the job would start at once; the first 32 of them
    free_unix_ms: int = plain("long")  # When enough capacity is expected to be free, if no other job takes it; 0: now, or unknown.


@dataclass
class Element(Message):
    """Element is the position of one job in its array."""
    array: str = plain("str")  # ID of the array
    index: int = plain("int")
    count: int = plain("int")  # number of elements in the array
    first: int = plain("int")  # the lowest index
    last: int = plain("int")  # the highest index
    step: int = plain("int")  # distance between neighbouring indices; 0: not evenly spaced
    arrival: int = plain("long")  # Place of the array in the order of arrival. Its elements wait in this place.


@dataclass
class ElementsChanged(Message):
    """ElementsChanged are elements of an array whose request was changed before they became jobs."""
    places: List[IndexRange] = many("IndexRange")
    set_priority: bool = plain("bool")
    priority: int = plain("int")
    set_time_limit: bool = plain("bool")
    time_limit_ms: int = plain("long")
    set_begin: bool = plain("bool")
    begin_unix_ms: int = plain("long")
    set_deadline: bool = plain("bool")
    deadline_unix_ms: int = plain("long")


@dataclass
class ElementsEnded(Message):
    """ElementsEnded are elements of an array with the same final state, by their positions in the list of indices."""
    state: JobState = plain("JobState", JobState.UNSPECIFIED)  # unspecified: the result is no longer known
    unborn: bool = plain("bool")  # the elements never became jobs
    places: List[IndexRange] = many("IndexRange")


@dataclass
class End(Message):
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)
    detail: str = plain("str")
    rank: int = plain("int")  # the first rank that failed, or -1
    node: str = plain("str")
    at_unix_ms: int = plain("long")  # by the wall clock, only for display
    ran_ms: int = plain("long")  # Time since the barrier, by the leader's steady clock. 0 if the attempt had not passed the barrier, or if an older version wrote this.
    preemption: Optional[Preemption] = one("Preemption")  # set only if the cause is a preemption
    stall: Optional[Stall] = one("Stall")  # set only if the attempt was ended because of a hang
    hold_ms: int = plain("long")  # The nodes keep the resources for the next attempt, for this time after the last exit. 0: they do not.


@dataclass
class EnvVar(Message):
    name: str = plain("str")
    value: str = plain("str")


@dataclass
class Event(Message):
    """Event is one change of the public view of a job or a node. Mirror → client."""
    seq: int = plain("long")  # grows by one with each change; a new leader starts again
    at_unix_ms: int = plain("long")
    text: str = plain("str")  # the change as a sentence
    job: Optional[JobStatus] = one("JobStatus")  # one of job, node and group is set
    node: Optional[NodeStatus] = one("NodeStatus")
    hidden: bool = plain("bool")  # the node is no longer shown
    synced: bool = plain("bool")  # the current state is complete
    group: int = plain("long")  # All waiting jobs of this group have a new reason. This is not a change of a job, so seq is the seq of the last change.
    reason: str = plain("str")
    group_jobs: int = plain("int")  # number of jobs in the group
    reason_code: str = plain("str")  # code of the reason


@dataclass
class Evidence(Message):
    """Evidence is what the node knows about the failure of a rank in addition to the exit status. The kernel, the driver and the agent report the first group of fields. The rank printed the texts of the second group, so they explain a verdict but never count against a node."""
    oom_scope: OomScope = plain("OomScope", OomScope.UNSPECIFIED)
    xids: List[int] = many("int")  # numbers of NVIDIA driver errors of the rank's GPUs, each once, oldest first
    kernel: str = plain("str")  # line of the kernel log about the failure
    disk_full: bool = plain("bool")  # the node's disk was full when the rank ended
    ended_by: EndedBy = plain("EndedBy", EndedBy.UNSPECIFIED)
    step: int = plain("long")  # last step that the rank reported; 0: none
    error: str = plain("str")  # last line of the last Python traceback
    frame: str = plain("str")  # place in that traceback, such as train.py:211
    output: List[str] = many("str")  # last lines of the error output


@dataclass
class ExecEnd(Message):
    """ExecEnd is the result of an exec session."""
    code: int = plain("int")  # as in a shell: 128 + n for a signal; 125 to 127 if the command did not run
    text: str = plain("str")  # the reason, if the process did not exit by itself


@dataclass
class ExecIn(Message):
    """ExecIn is a message to an exec session. The first one sets the fields from job to terminal."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an id or a unique prefix
    rank: int = plain("int")
    command: List[str] = many("str")  # with its arguments
    env: List[str] = many("str")  # NAME=value; adds to or overrides the variables of the task
    terminal: bool = plain("bool")
    stdin: bytes = plain("bytes")
    stdin_ends: bool = plain("bool")
    signal: int = plain("int")  # for its process group
    rows: int = plain("int")  # of the terminal
    columns: int = plain("int")
    helper: bool = plain("bool")  # the command is a subcommand of synapse-exec
    attempt: Optional[Token] = one("Token")  # in Reach: the attempt of the calling task; rank is its rank
    host: str = plain("str")  # in Reach: the node of the other task, by name or address


@dataclass
class ExecOut(Message):
    """ExecOut is a message from an exec session."""
    session: str = plain("str")  # in the first message of a node
    begun: bool = plain("bool")
    stdout: bytes = plain("bytes")  # with a terminal, all output
    stderr: bytes = plain("bytes")
    end: Optional[ExecEnd] = one("ExecEnd")  # in the last message
    stdout_ends: bool = plain("bool")  # stdout has ended; not sent with a terminal


@dataclass
class Exit(Message):
    """Exit is the result of one rank. It is evidence that no process of the rank runs."""
    rank: int = plain("int")
    kind: ExitKind = plain("ExitKind", ExitKind.UNSPECIFIED)
    code: int = plain("int")  # 128 + signal if a signal ended the process
    signal: int = plain("int")
    oom: bool = plain("bool")
    at_unix_ms: int = plain("long")
    detail: str = plain("str")
    peak_memory_bytes: int = plain("long")
    fault: Fault = plain("Fault", Fault.UNSPECIFIED)  # of PREPARE_FAILED and LAUNCH_FAILED
    disk: bool = plain("bool")  # the rank was stopped because it used too much disk on the node; detail has the amount
    unhealthy: bool = plain("bool")  # Of NEVER_STARTED: the health check of the node that is named in detail failed.
    saved: bool = plain("bool")  # The rank exited with code 85 while a checkpoint was requested, so it has saved and has not failed.
    by_itself: bool = plain("bool")  # the rank ended before it was stopped; false: it was stopped, or an older version wrote this
    cpu_ms: int = plain("long")  # CPU time of all its processes; 0: unknown
    evidence: Optional[Evidence] = one("Evidence")  # Of a failure. Records on the leader's disk keep the texts only in the verdict.


@dataclass
class ExplainJob(Message):
    """client → Mirror. Asks why a job waits, or why a job with this spec would wait. It changes nothing."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # this or spec
    spec: Optional[JobSpec] = one("JobSpec")  # of a job that need not be submitted


@dataclass
class ExplainJobReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    text: str = plain("str")  # the facts in one line, for clients that do not know the field explanation
    explanation: Optional[Explanation] = one("Explanation")


@dataclass
class Explanation(Message):
    """Explanation holds the facts about why a job waits, or why a job with a spec would wait. A list has at most 100 entries."""
    job: Optional[JobName] = one("JobName")  # only the name if the job was not submitted
    phase: str = plain("str")  # one of Phases in phase.go; empty if the job was not submitted
    reason: str = plain("str")  # as in JobStatus; if empty, a job that was not submitted would start now
    reason_code: str = plain("str")
    never: bool = plain("bool")  # the job can never start on the nodes that the cluster knows
    at_unix_ms: int = plain("long")  # the time of the answer; 0 for a job that has ended
    failure: str = plain("str")  # why the last attempt failed before its tasks started
    needs: Optional[Demand] = one("Demand")
    space: Optional[Space] = one("Space")  # the topology domain that could hold the largest part of the job
    in_use: List[Holding] = many("Holding")  # the jobs that use resources in that domain, the largest first
    more_in_use: int = plain("int")  # number of jobs that in_use omits
    unavailable: List[UnavailableNode] = many("UnavailableNode")
    more_unavailable: int = plain("int")
    reserved: List[Holding] = many("Holding")  # resources in that domain that are reserved for other jobs
    more_reserved: int = plain("int")
    start: Optional[Prospect] = one("Prospect")
    no_limit: Optional[JobName] = one("JobName")  # a job without a time limit that prevents a start time or a guarantee
    fits_after: List[JobName] = many("JobName")  # the job fits after the time limits of these jobs
    fits_by_unix_ms: int = plain("long")  # latest end of these jobs
    ahead: int = plain("int")  # number of jobs before this one
    waiting: int = plain("int")  # number of jobs in the queue; 0: the job has a reservation, or no position
    limit: str = plain("str")  # the queue limit or owner limit that the job would exceed
    quota: str = plain("str")  # how much of its quota the job's queue uses
    dependencies: List[Dependency] = many("Dependency")  # jobs that must end first
    conflict: List[Constraint] = many("Constraint")  # a minimal set of requirements that cannot be met together
    in_the_way: List[Constraint] = many("Constraint")  # members of the smallest sets without which the job would start now
    at_once: int = plain("int")  # the size of such a set; 0: none is known
    relaxations: List[Relaxation] = many("Relaxation")  # tried changes; with each one the job would start now


@dataclass
class GangSpec(Message):
    """GangSpec is the shape of a gang: either replicas of JobSpec.each, or a total that is split with one task per node."""
    replicas_min: int = plain("int")
    replicas_max: int = plain("int")  # must equal replicas_min; reserved for elastic gangs
    total: Optional[Resources] = one("Resources")
    split: Split = plain("Split", Split.UNSPECIFIED)
    apart: bool = plain("bool")  # of replicas: each on a separate node


@dataclass
class GetEfficiency(Message):
    """client → Mirror. Asks for the use of the cluster's GPU time."""
    principal: Optional[Principal] = one("Principal")
    kind: GpuTimeKind = plain("GpuTimeKind", GpuTimeKind.UNSPECIFIED)  # unspecified: the cluster
    days: int = plain("int")  # number of most recent days, including today; 0: all


@dataclass
class GetEfficiencyReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    time: Optional[GpuTime] = one("GpuTime")
    now: List[GpuNow] = many("GpuNow")  # the classes with at least one GPU
    capacity_milli_gpu: int = plain("long")


@dataclass
class GetJob(Message):
    """client → Mirror."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an ID or a unique prefix
    attempts: bool = plain("bool")  # also return the earlier attempts


@dataclass
class GetJobReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: Optional[JobStatus] = one("JobStatus")
    attempts: List[AttemptRecord] = many("AttemptRecord")  # all stored attempts without their ranks, oldest first


@dataclass
class GetQueues(Message):
    """client → Mirror."""
    principal: Optional[Principal] = one("Principal")


@dataclass
class GetQueuesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    revision: int = plain("long")  # 0: no configuration exists, and every name is a queue
    queues: Optional[Queues] = one("Queues")
    applied: Optional[Deed] = one("Deed")
    usage: List[QueueUsage] = many("QueueUsage")  # Of each queue that is configured or has jobs, by name. An older scheduler omits it.
    not_allowed: List[str] = many("str")  # Queues that the caller may not use, because of the owners of the queue or of an ancestor. Empty for an admin.


@dataclass
class Gpu(Message):
    """Gpu is one device of a node. Its ID is the UUID from the GPU driver."""
    id: str = plain("str")
    type: str = plain("str")
    memory_bytes: int = plain("long")
    bus_id: str = plain("str")
    minor: int = plain("int")
    declared: bool = plain("bool")  # named by the operator, not discovered
    fabric_domain: str = plain("str")  # the NVLink or xGMI domain of the device


@dataclass
class GpuAmount(Message):
    """GpuAmount is the GPU time of one class in a row."""
    class_: GpuClass = plain("GpuClass", GpuClass.UNSPECIFIED, name="class")
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)  # cause of the loss
    milli_gpu_ms: int = plain("long")


@dataclass
class GpuNow(Message):
    """GpuNow is the number of GPUs that are in one class now, in thousandths."""
    class_: GpuClass = plain("GpuClass", GpuClass.UNSPECIFIED, name="class")
    milli_gpu: int = plain("long")


@dataclass
class GpuShare(Message):
    """GpuShare is a part of one device."""
    gpu_id: str = plain("str")
    milli: int = plain("long")


@dataclass
class GpuTime(Message):
    """GpuTime is the use of all GPU time since the measurement began."""
    since_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")
    rows: List[GpuTimeRow] = many("GpuTimeRow")


@dataclass
class GpuTimeRow(Message):
    """GpuTimeRow is the use of the GPU time of one day by the cluster, an owner or a queue. For each kind, the rows of a day add up to the cluster's capacity. The row without a name has the time that no subject used."""
    kind: GpuTimeKind = plain("GpuTimeKind", GpuTimeKind.UNSPECIFIED)
    day: int = plain("long")  # days since 1970, in UTC
    name: str = plain("str")  # `*`: all other subjects
    amounts: List[GpuAmount] = many("GpuAmount")  # the amounts that are not 0
    capacity_milli_gpu_ms: int = plain("long")  # in rows without a name; measured separately from the amounts


@dataclass
class Grant(Message):
    """Grant is the resources and exact devices of one rank."""
    rank: int = plain("int")
    amount: Optional[Resources] = one("Resources")
    gpus: List[GpuShare] = many("GpuShare")


@dataclass
class HangSpec(Message):
    """HangSpec is what the scheduler does about hangs of a job that reports progress."""
    then: HangAction = plain("HangAction", HangAction.UNSPECIFIED)
    floor_ms: int = plain("long")  # Shortest time without a step that counts as a hang. 0: the default. A job with long steps gets more time.
    dump: int = plain("int")  # signal that makes a task print its stacks; 0: none


@dataclass
class History(Message):
    """client → gateway. An empty field matches every finished job."""
    principal: Optional[Principal] = one("Principal")
    owner: str = plain("str")
    queue: str = plain("str")
    name: str = plain("str")
    states: List[JobState] = many("JobState")
    labels: List[Label] = many("Label")  # all of these labels
    since_unix_ms: int = plain("long")  # jobs that finished at this time or later; 0: no lower bound
    until_unix_ms: int = plain("long")  # jobs that finished before this time; 0: no upper bound
    after: str = plain("str")  # page token: next of the previous reply
    limit: int = plain("int")
    ranks: bool = plain("bool")  # also return each rank with its node, devices and exit


@dataclass
class HistoryReply(Message):
    """Newest jobs first. A page may be short or empty although more pages follow. On the last page, next is empty."""
    outcome: Optional[Outcome] = one("Outcome")
    jobs: List[PastJob] = many("PastJob")
    next: str = plain("str")
    corrupted: List[str] = many("str")  # Jobs that are omitted because a record is corrupted: one error text each.


@dataclass
class Hold(Message):
    """client → Scheduler. A held job is not planned. Hold does not stop a running job."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")
    release: bool = plain("bool")


@dataclass
class HoldReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    release: bool = plain("bool")  # Copied from the request; an array that waits for replies of its elements matches the reply to the request with it.


@dataclass
class Holding(Message):
    """Holding holds the resources that one job uses or has reserved in a domain."""
    job: Optional[JobName] = one("JobName")
    amount: Optional[Resources] = one("Resources")
    nodes: int = plain("int")  # 0: not counted
    ends_unix_ms: int = plain("long")  # time when all of it is free; 0: unknown
    ends: str = plain("str")  # the basis of that time: time-limit, no-limit or unknown; empty: it is reserved


@dataclass
class IndexRange(Message):
    """IndexRange is every step-th number from first to last."""
    first: int = plain("int")
    last: int = plain("int")
    step: int = plain("int")  # 0: same as 1


@dataclass
class Inherited(Message):
    """Inherited describes a restart in place: the attempt before, whose nodes, devices and files this attempt takes over. The exits of that attempt are on the leader's disk."""
    from_: Optional[Token] = one("Token", name="from")
    generation: int = plain("int")  # number of restarts in place before this attempt
    cause: str = plain("str")  # why the attempt before ended
    rank: int = plain("int")  # the rank that failed first, or -1
    fresh: bool = plain("bool")  # only on a node: it replaces a node of the attempt before, and keeps nothing of it
    swapped: List[Swapped] = many("Swapped")  # nodes of the attempt before that others replace


@dataclass
class JobName(Message):
    """JobName names a job for people."""
    id: str = plain("str")
    short_id: str = plain("str")
    name: str = plain("str")
    owner: str = plain("str")


@dataclass
class JobProgress(Message):
    """JobProgress is the progress of the latest attempt of a job, as its tasks report it. The progress of the job is that of its slowest rank."""
    step: int = plain("long")  # of the slowest rank
    total: int = plain("long")  # 0: unknown
    percent: int = plain("int")  # of the total, rounded down; 0 without a total
    milli_rate: int = plain("long")  # Thousandths of steps per second of the slowest rank, measured by the steady clock of its node. 0: not known yet.
    left_ms: int = plain("long")  # time for the remaining steps at that rate; 0: unknown, or none remain
    most_step: int = plain("long")  # of the fastest rank
    changed_ms_ago: int = plain("long")  # since a step last changed on any rank
    ranks: int = plain("int")  # number of ranks that report a step
    not_understood: int = plain("long")  # number of reports that could not be parsed
    metrics: List[Metric] = many("Metric")  # of the first rank that reports some
    slow: List[SlowRank] = many("SlowRank")  # the slowest of the ranks that are much slower than the others
    slow_ranks: int = plain("int")  # number of all such ranks


@dataclass
class JobRecord(Message):
    """JobRecord is the record of one job. Its attempts have separate records."""
    id: str = plain("str")
    revision: int = plain("long")
    written_by: Optional[Token] = one("Token")  # the write that made this revision; identifies a repeated write
    spec: Optional[JobSpec] = one("JobSpec")
    owner: Optional[Principal] = one("Principal")
    request_id: str = plain("str")
    request_hash: bytes = plain("bytes")
    submitted_unix_ms: int = plain("long")
    arrival: int = plain("long")  # position in the queue; unchanged by restarts of the job
    state: JobState = plain("JobState", JobState.UNSPECIFIED)
    attempt: Optional[Token] = one("Token")  # the latest committed attempt
    attempt_count: int = plain("int")
    failures: int = plain("int")  # count against restart.limit
    infra_restarts: int = plain("int")  # count against a separate limit
    not_before_unix_ms: int = plain("long")  # end of the backoff, only for display; leaders wait by their own steady clocks
    cancel: Optional[Deed] = one("Deed")
    hold: Optional[Deed] = one("Deed")
    exit_code: int = plain("int")  # of a final state
    outcome: str = plain("str")  # of a final state: rank, node and cause as a sentence
    finished_unix_ms: int = plain("long")
    prepare_failures: int = plain("int")  # Failures to prepare or launch, a part of infra_restarts, counted from the last time that a gang of the job ran. The bound keeps a broken image from visiting every node.
    runtime_ms: int = plain("long")  # run time of the tasks in all ended attempts
    prepare_failed_on: List[str] = many("str")  # nodes of prepare_failures, at most two, because two are proof enough
    changed: Optional[Deed] = one("Deed")  # the last change of priority, time limit or begin; the values are in spec
    uid: int = plain("int")  # uid of the tasks on every node if the spec names no user, or root; 0: none was assigned
    memory_by_default: bool = plain("bool")  # The memory in the spec is a default, because the request had none.
    time_limit_by_default: bool = plain("bool")  # The time limit in the spec is a default, because the request had none.
    planned_start: Optional[Promise] = one("Promise")  # The start guarantee of the job. Unset if the job has none, or has only a planned start.
    after_known: List[AfterKnown] = many("AfterKnown")  # the jobs in spec.after that have ended
    given_to: str = plain("str")  # New owner of a job of anonymous, as set by an admin; the original owner stays in the audit log.
    array: Optional[ArrayRecord] = one("ArrayRecord")  # of an array; such a job is always held, so that no leader of an older version runs it
    preemptions: int = plain("int")  # attempts that were stopped for other jobs; they count against no limit
    outranked: int = plain("int")  # attempts among preemptions that were stopped for another job of the same queue
    uid_to_come: bool = plain("bool")  # The tasks need a uid of this job, which is assigned before the first Reserve; uid is 0 until then.
    exempt: bool = plain("bool")  # an admin submitted the job, so owner limits do not apply to its uid
    after_started: List[AfterKnown] = many("AfterKnown")  # The jobs in spec.after with AFTER_END_STARTED that have started. This is a separate list, because an older leader takes each entry of after_known for an end.
    uid_turn: int = plain("long")  # Order in which uids were assigned. 0 if none was assigned, or if an older version assigned it in the order of arrival.
    sealed: bytes = plain("bytes")  # The spec's secrets with their values, sealed for the gateway's key; empty after the job has finished.
    last_failure: Optional[Verdict] = one("Verdict")  # of the last attempt that failed, without its output


@dataclass
class JobSpec(Message):
    """JobSpec is the specification of one job, as validated by the gateway."""
    name: str = plain("str")
    labels: List[Label] = many("Label")
    queue: str = plain("str")
    priority: int = plain("int")  # higher first
    gang: Optional[GangSpec] = one("GangSpec")
    each: Optional[Resources] = one("Resources")  # of one task
    gpu_type: str = plain("str")
    shm_bytes: int = plain("long")
    topology: Optional[TopologySpec] = one("TopologySpec")
    node_selector: List[Label] = many("Label")
    image: str = plain("str")
    command: List[str] = many("str")
    workdir: str = plain("str")
    user: str = plain("str")
    env: List[EnvVar] = many("EnvVar")
    mounts: List[Mount] = many("Mount")
    time_limit_ms: int = plain("long")  # of one attempt, from its start; 0: no limit
    prepare_timeout_ms: int = plain("long")  # 0: the default
    stop: Optional[StopSpec] = one("StopSpec")
    restart: Optional[RestartSpec] = one("RestartSpec")
    lost_grace_ms: int = plain("long")  # how long to wait for a lost node to return with the attempt
    stop_when_lost_ms: int = plain("long")  # 0: tasks outlive the loss of the control plane
    limits_required: bool = plain("bool")  # refuse a node that cannot enforce the limits
    nodes: List[str] = many("str")  # only these nodes; empty: all
    exclude: List[str] = many("str")  # never these nodes
    disk_bytes: int = plain("long")  # disk limit of each task's scratch directory and writable layer; 0: the node's default
    submit_dir: str = plain("str")  # Directory of the submit command. A task on the node's own root filesystem without workdir starts here, if its user may.
    script: Optional[Script] = one("Script")  # run by each task instead of a command; sent only to nodes that understand it
    network: Network = plain("Network", Network.UNSPECIFIED)  # other than the node's network: only on nodes that announce it
    begin_unix_ms: int = plain("long")  # earliest start, by the leader's wall clock; 0 or a past time: at once
    launcher: Launch = plain("Launch", Launch.UNSPECIFIED)  # an agent that does not know this field uses LAUNCH_AUTO
    warn: Optional[WarnSpec] = one("WarnSpec")  # unset: tasks get no warning before they are stopped
    priority_zero: bool = plain("bool")  # priority 0 was requested, so the default of the queue does not apply
    after: List[After] = many("After")  # Earlier jobs: all must end as required before this job is planned. If one ends otherwise, this job is cancelled.
    array: Optional[ArraySpec] = one("ArraySpec")  # unset: one job
    element: Optional[Element] = one("Element")  # never submitted: the leader sets it in each job of an array
    not_preemptible: bool = plain("bool")  # never stopped for another job, and therefore limited to its queue's quota
    checkpoint_ms: int = plain("long")  # interval between checkpoints, which is the most work that a stop loses; 0: unknown
    secrets: List[Secret] = many("Secret")  # Only names and kinds; the values are sealed in the job's record, and the node requests them.
    checkpoint: Optional[CheckpointSpec] = one("CheckpointSpec")  # unset: the job is stopped without a request to save
    progress: Optional[ProgressSpec] = one("ProgressSpec")  # unset: no pattern
    hang: Optional[HangSpec] = one("HangSpec")  # unset: hangs are reported
    deadline_unix_ms: int = plain("long")  # when the job must have ended, by the leader's wall clock; 0: none
    title: str = plain("str")  # the name as the user wrote it, if it is not valid as name: letters, digits, '.', '_' and '-'


@dataclass
class JobStatus(Message):
    """JobStatus is the public view of a job."""
    record: Optional[JobRecord] = one("JobRecord")
    phase: str = plain("str")  # one of Phases in phase.go
    reason: str = plain("str")  # Why the job does not run now. A waiting job has a code and a text of at most 60 columns: "Resources: needs 8 GPUs, 0 of 32 free".
    attempt: Optional[AttemptRecord] = one("AttemptRecord")  # the latest attempt
    unconfirmed: List[str] = many("str")  # nodes that have not confirmed the exit of their tasks
    tasks: int = plain("int")  # number of tasks of the latest attempt, if a list omits the ranks
    group: int = plain("long")  # Identifies the group of waiting jobs with equal requests, which share one reason. 0 if the job does not wait.
    withheld: bool = plain("bool")  # env, command and script are omitted because the caller is not the owner; never set in a record
    start: Optional[Prospect] = one("Prospect")  # of a waiting job, in replies to queries; events do not have it
    counts: Optional[ArrayCounts] = one("ArrayCounts")  # of an array
    reason_code: str = plain("str")  # Code of a waiting job's reason, one of WaitReasons in reason.go. Empty if the job does not wait.
    warned: Optional[Warning] = one("Warning")  # Warning of the running attempt. Unset if no warning was sent, or if an earlier leader sent it.
    saving: Optional[Saving] = one("Saving")  # of the running attempt; unset: this leader has requested no checkpoint
    progress: Optional[JobProgress] = one("JobProgress")  # of the latest attempt; unset: no progress was reported to this leader
    stall: Optional[Stall] = one("Stall")  # of the running attempt; unset: no hang is known
    use: Optional[Use] = one("Use")  # of the running attempt; unset: not measured yet


@dataclass
class Kept(Message):
    """Kept is the capacity that is reserved on a node for one rank."""
    rank: int = plain("int")
    node: str = plain("str")
    machine_id: str = plain("str")  # the reservation does not apply to another node that has the same name
    amount: Optional[Resources] = one("Resources")


@dataclass
class Label(Message):
    key: str = plain("str")
    value: str = plain("str")


@dataclass
class LedgerReport(Message):
    """LedgerReport is the complete ledger of a node."""
    version: int = plain("long")
    total: Optional[Resources] = one("Resources")
    free: Optional[Resources] = one("Resources")
    free_gpus: List[GpuShare] = many("GpuShare")  # only devices with free capacity
    allocations: List[SliceReport] = many("SliceReport")
    withdrawn_gpus: List[str] = many("str")
    trouble: str = plain("str")  # why the node cannot take work, for example a disk error; empty: it can
    uids: List[int] = many("int")  # the uids from leaders that are in use on the node, in order
    unhealthy: str = plain("str")  # The health check that failed last, with its message; empty: none failed.


@dataclass
class ListJobs(Message):
    principal: Optional[Principal] = one("Principal")
    owner: str = plain("str")
    queue: str = plain("str")
    phases: List[str] = many("str")
    labels: List[Label] = many("Label")
    after: str = plain("str")  # page token: the last ID of the previous page
    limit: int = plain("int")
    name: str = plain("str")  # only jobs with this name
    array: str = plain("str")  # only elements of this array that have become jobs
    elements: bool = plain("bool")  # also list elements, in addition to their arrays


@dataclass
class ListJobsReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    jobs: List[JobStatus] = many("JobStatus")
    next: str = plain("str")


@dataclass
class ListNodes(Message):
    principal: Optional[Principal] = one("Principal")
    after: str = plain("str")
    limit: int = plain("int")
    node: str = plain("str")  # A node ID: return only this node, with the names in users, which lists omit. An older scheduler returns a page.


@dataclass
class ListNodesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    nodes: List[NodeStatus] = many("NodeStatus")
    next: str = plain("str")


@dataclass
class ListPasses(Message):
    """ListPasses requests all valid user tokens."""


@dataclass
class ListPassesReply(Message):
    passes: List[Pass] = many("Pass")  # by name, then by time


@dataclass
class LogPart(Message):
    """LogPart is a part of one task's output. It ends at the end of a line, unless the line is too long."""
    rank: int = plain("int")
    attempt: Optional[Token] = one("Token")
    stderr: bool = plain("bool")
    data: bytes = plain("bytes")
    notice: str = plain("str")  # instead of data: why the output of a task cannot be read
    offset: int = plain("long")  # position after the data in this stream, to resume from here
    missing: bool = plain("bool")  # with a notice: the end of the task's output did not arrive in time and is skipped
    times: List[LogTime] = many("LogTime")  # The last time before the data and all times within it, if requested. Empty: the node stores no times.


@dataclass
class LogPosition(Message):
    """LogPosition is the position up to which one stream of a task was read."""
    rank: int = plain("int")
    stderr: bool = plain("bool")
    offset: int = plain("long")  # of the last received LogPart


@dataclass
class LogTime(Message):
    """LogTime says when the data of an output stream from an offset on was written."""
    offset: int = plain("long")
    unix_ms: int = plain("long")


@dataclass
class MappedUser(Message):
    """MappedUser is the one account that an owner's jobs run as."""
    owner: str = plain("str")
    account: str = plain("str")
    uid: int = plain("int")  # uid of the account


@dataclass
class Metric(Message):
    """Metric is a value that a task reports in addition to its step, such as its loss."""
    name: str = plain("str")
    value: str = plain("str")  # as the task wrote it


@dataclass
class MissedSave(Message):
    """MissedSave is a request to save a checkpoint that was open or late when the attempt ended."""
    request: int = plain("long")
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)  # why the gang was asked; UNSPECIFIED: a user asked
    late: bool = plain("bool")  # the deadline had passed; false: the attempt ended before the deadline
    acknowledged: int = plain("int")  # number of required ranks that acknowledged a step
    required: int = plain("int")  # number of ranks that had to acknowledge the same step
    rank: int = plain("int")  # the first required rank without an acknowledgement, or -1
    problem: str = plain("str")  # the first problem of a rank


@dataclass
class Mount(Message):
    source: str = plain("str")
    target: str = plain("str")
    read_only: bool = plain("bool")


@dataclass
class NodeFailure(Message):
    """NodeFailure is the failure of an attempt of a job, for which evidence outside of the job names a node."""
    job: str = plain("str")
    owner: str = plain("str")
    class_: FailureClass = plain("FailureClass", FailureClass.UNSPECIFIED, name="class")
    reason: str = plain("str")
    at_unix_ms: int = plain("long")  # by the leader's wall clock


@dataclass
class NodeRecord(Message):
    """NodeRecord is the record of one node."""
    id: str = plain("str")
    revision: int = plain("long")
    written_by: Optional[Token] = one("Token")
    machine_id: str = plain("str")
    boot_id: str = plain("str")
    announcement: Optional[Announcement] = one("Announcement")
    cordoned: Optional[Deed] = one("Deed")
    drained: Optional[Deed] = one("Deed")
    drain_deadline_unix_ms: int = plain("long")  # only for display; drain_left_ms is the effective value
    backed_off: Optional[Deed] = one("Deed")  # informative; the leader keeps backoffs in memory
    removed: Optional[Deed] = one("Deed")
    joined_unix_ms: int = plain("long")
    drain_left_ms: int = plain("long")  # Time left until the drain's deadline when this was written; 0: no deadline, or an older version wrote this.
    note: Optional[Deed] = one("Deed")  # from an operator, only for display
    planned_drain: Optional[Deed] = one("Deed")  # a planned drain; removed when the drain begins
    drain_starts_unix_ms: int = plain("long")  # Start of the planned drain, by the leader's wall clock.
    planned_drain_deadline_ms: int = plain("long")  # Deadline of the planned drain, from its start; 0: none.


@dataclass
class NodeStatus(Message):
    """NodeStatus is the public view of a node."""
    record: Optional[NodeRecord] = one("NodeRecord")
    phase: str = plain("str")  # up, dead, unknown
    unschedulable: str = plain("str")  # why the node gets no new work; empty: schedulable
    ledger: Optional[LedgerReport] = one("LedgerReport")
    unconfirmed: List[Token] = many("Token")
    last_seen_ms_ago: int = plain("long")
    users: Optional[NodeUsers] = one("NodeUsers")  # The accounts that jobs run as. Lists omit the names. Unset if the node has not reported the accounts, or runs an older agent.
    suspicion: Optional[Suspicion] = one("Suspicion")  # unset: no failure counts against the node


@dataclass
class NodeUsers(Message):
    """NodeUsers is the rule by which a node chooses the account of a job that names a user. The node applies the rule again when the job arrives. The copy lets the scheduler refuse a job at once if every node would refuse it."""
    any: bool = plain("bool")  # Owners without an account in mapped may use every account: TLS is off, or users.any is set.
    own: List[str] = many("str")  # accounts that an owner with the same name may use, if that name is proven
    more: bool = plain("bool")  # the node has more such accounts than own lists
    mapped: List[MappedUser] = many("MappedUser")  # users.owners of the node's policy
    own_count: int = plain("int")  # In replies to clients, which have only the first entries of own and mapped: the number of all entries.
    mapped_count: int = plain("int")


@dataclass
class Outcome(Message):
    """Outcome is part of every reply. An error names the field and a fix."""
    code: Code = plain("Code", Code.UNSPECIFIED)
    field: str = plain("str")
    text: str = plain("str")
    hint: str = plain("str")


@dataclass
class OwnJob(Message):
    """OwnJob is a request of a task about its own job. The gateway serves only a node with this task, and only until the attempt has ended. A change is made in the name of the job's owner."""
    job: str = plain("str")  # ID
    attempt: Optional[Token] = one("Token")  # attempt of the task
    rank: int = plain("int")  # rank of the task
    verb: OwnVerb = plain("OwnVerb", OwnVerb.UNSPECIFIED)


@dataclass
class OwnJobReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: Optional[JobStatus] = one("JobStatus")  # record and phase before a change


@dataclass
class Pass(Message):
    """Pass is a user token without its hash."""
    id: str = plain("str")
    role: str = plain("str")
    name: str = plain("str")
    by: str = plain("str")
    made_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")


@dataclass
class PastAttempt(Message):
    """PastAttempt is the summary of one attempt."""
    token: Optional[Token] = one("Token")
    number: int = plain("int")
    committed_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")  # 0: the attempt never passed its start barrier
    ended_unix_ms: int = plain("long")  # when the end was decided
    gone_unix_ms: int = plain("long")  # when the last member had ended; 0: unknown for at least one member
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)
    detail: str = plain("str")
    failed_rank: int = plain("int")  # the first rank that failed, or -1
    failed_node: str = plain("str")
    exit_code: int = plain("int")  # of the failed rank
    signal: int = plain("int")  # of the failed rank
    members: int = plain("int")
    nodes: List[str] = many("str")  # in rank order, each once
    milli_gpu: int = plain("long")  # amount that all members held together
    milli_gpu_ms: int = plain("long")  # from COMMIT until each member had ended
    peak_memory_bytes: int = plain("long")  # highest peak of a single member
    ranks: List[Place] = many("Place")  # only if the request asks for ranks
    first_estimate: Optional[Told] = one("Told")  # First estimate of the attempt's start. Unset if there was none, or from an older scheduler.
    verdict: Optional[Verdict] = one("Verdict")  # same as in AttemptRecord
    saved: Optional[Saved] = one("Saved")  # same as in AttemptRecord
    missed_checkpoint: Optional[MissedSave] = one("MissedSave")  # same as in AttemptRecord
    ran_ms: int = plain("long")  # same as in End
    cpu_ms: int = plain("long")  # CPU time of all members; 0: unknown for at least one member
    inherited: Optional[Inherited] = one("Inherited")  # same as in AttemptRecord
    stopping_ms: int = plain("long")  # same as in AttemptRecord
    preparing_ms: int = plain("long")  # same as in AttemptRecord


@dataclass
class PastJob(Message):
    """PastJob is the summary of one finished job."""
    id: str = plain("str")
    name: str = plain("str")
    labels: List[Label] = many("Label")
    owner: str = plain("str")
    queue: str = plain("str")
    priority: int = plain("int")
    state: JobState = plain("JobState", JobState.UNSPECIFIED)
    exit_code: int = plain("int")
    reason: str = plain("str")  # a sentence
    submitted_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")  # start of the first attempt that started; 0: no attempt started
    finished_unix_ms: int = plain("long")
    cancel: Optional[Deed] = one("Deed")
    attempt_count: int = plain("int")
    failures: int = plain("int")
    infra_restarts: int = plain("int")
    milli_gpu_ms: int = plain("long")  # thousandths of a GPU times milliseconds, over all attempts
    attempts: List[PastAttempt] = many("PastAttempt")  # in order
    time_limit_ms: int = plain("long")  # of one attempt, from its start; 0: no limit
    gang: Optional[GangSpec] = one("GangSpec")  # as requested; unset by an older scheduler
    each: Optional[Resources] = one("Resources")  # resources of one task; unset by an older scheduler
    title: str = plain("str")  # the name as the user wrote it; empty: same as name


@dataclass
class PastPart(Message):
    """PastPart is a part of the answer: lines of JSON, of a recording as from `synapse-cli web --record`, or one sum each."""
    lines: bytes = plain("bytes")
    since_unix_ms: int = plain("long")  # in the first part: the first recorded time; 0: nothing is recorded
    until_unix_ms: int = plain("long")  # in the last part: the end of the answered time range


@dataclass
class Peer(Message):
    rank: int = plain("int")
    node: str = plain("str")
    address: str = plain("str")
    rack: str = plain("str")


@dataclass
class Place(Message):
    """Place is the node of one rank in an attempt."""
    rank: int = plain("int")
    node: str = plain("str")
    machine_id: str = plain("str")
    grant: Optional[Grant] = one("Grant")
    address: str = plain("str")
    exit: Optional[Exit] = one("Exit")  # unset: the exit is not confirmed


@dataclass
class Preemption(Message):
    """Preemption is the job for which an attempt was stopped."""
    for_job: str = plain("str")
    rule: PreemptionRule = plain("PreemptionRule", PreemptionRule.UNSPECIFIED)
    lost_milli_gpu_seconds: int = plain("long")


@dataclass
class Principal(Message):
    """Principal is the identity of the caller. Without certificates it is "anonymous"."""
    name: str = plain("str")
    groups: List[str] = many("str")
    proven: bool = plain("bool")  # A certificate or token of this cluster names the person, or an issuer with localUsers does, so the name also counts as the name of a node's account. The gateway writes this field and overwrites a client's value.


@dataclass
class ProgressSpec(Message):
    """ProgressSpec is the way in which the tasks of a job report their progress, in addition to the file $SYNAPSE_PROGRESS."""
    pattern: str = plain("str")  # Regular expression for lines of stdout. Its groups are the step and, if there are two, the total. Empty: none.
    kubeflow_off: bool = plain("bool")  # the tasks get no variables of the Kubeflow Trainer progress protocol


@dataclass
class Promise(Message):
    """Promise is a start guarantee: nodes that are reserved for a waiting job until the job starts there. The record has the time left at its writing, because no clock outlives a leader. A new leader computes again when the nodes will be free."""
    pool: str = plain("str")  # pool of the guarantee: a GPU type; empty: nodes without GPUs
    order: int = plain("long")  # order of the guarantees; a later one was planned around the earlier ones
    reserved: List[Kept] = many("Kept")  # in rank order, node by node
    left_ms: int = plain("long")  # until the latest start; 0: none, because some job on these nodes has no time limit
    overruns: int = plain("int")  # How often the job may have waited for a backfilled job that overran its estimate.
    attempt: int = plain("int")  # The attempt that the nodes are reserved for; the reservation ends when this attempt begins.
    first_estimate: Optional[Told] = one("Told")  # The first estimate, from this guarantee or from a planned start. Unset if it was lost with an earlier leader.
    victims: List[Victim] = many("Victim")  # attempts that are stopped for the job; empty: the job waits for running jobs to end
    on_loan: bool = plain("bool")  # The job's queue borrows capacity for it. The guarantee ends if another queue reclaims its quota.


@dataclass
class Prospect(Message):
    """Prospect is the estimated start of a waiting job."""
    basis: Basis = plain("Basis", Basis.UNSPECIFIED)
    at_unix_ms: int = plain("long")  # expected start; 0: unknown
    latest_unix_ms: int = plain("long")  # guaranteed latest start unless a node is lost, but see on_loan; 0: unknown
    p90_unix_ms: int = plain("long")  # Time by which 9 of 10 jobs with a similar first estimate had started; 0: too few such jobs.
    reason: str = plain("str")  # why there is no expected or no latest start
    reserved_nodes: List[str] = many("str")  # the nodes that are reserved for the job, each once
    reserved_until_unix_ms: int = plain("long")  # End of the reservation; 0: the start of the job; if the basis is LEARNED, an estimate.
    ahead: int = plain("int")  # number of jobs with an earlier turn; 0 if nodes are reserved for the job
    ahead_gpu_seconds: int = plain("long")  # expected work of the jobs ahead; 0: unknown
    ahead_ms: int = plain("long")  # time for that work at the rate of the last day; 0: unknown
    without_history: bool = plain("bool")  # Of BASIS_LEARNED: the cluster has no history yet, so each job is assumed to run for one hour.
    on_loan: bool = plain("bool")  # The job's queue borrows capacity for it; the latest start does not hold if the capacity is reclaimed.


@dataclass
class QueueSpec(Message):
    """QueueSpec is the configuration of one queue."""
    name: str = plain("str")
    parent: str = plain("str")  # empty: the queue is at the top
    quota: List[Amount] = many("Amount")  # assured amount of the queue and its descendants
    limit: List[Amount] = many("Amount")  # hard cap of the queue and its descendants
    weight: int = plain("long")  # 0: inherited from the parent
    order: QueueOrder = plain("QueueOrder", QueueOrder.UNSPECIFIED)
    default_time_limit_ms: Optional[int] = one("long")  # time limit of jobs that name none
    max_time_limit_ms: Optional[int] = one("long")
    selector: List[Label] = many("Label")  # labels that nodes must have
    default_priority: Optional[int] = one("int")
    max_priority: Optional[int] = one("int")
    owner_amounts: List[Amount] = many("Amount")  # most that one owner may use in the queue and its descendants
    owner_nodes: Optional[int] = one("long")  # each node counted once
    owner_running: Optional[int] = one("long")  # jobs
    owner_waiting: Optional[int] = one("long")  # jobs
    by_priority: Optional[bool] = one("bool")  # this field and the next two: which jobs may be stopped for the queue's jobs
    reclaim: Optional[bool] = one("bool")
    shortest: Optional[bool] = one("bool")
    min_runtime_ms: Optional[int] = one("long")  # How long the queue's own jobs run before they may be stopped.
    owners: List[str] = many("str")  # Owners that may submit jobs: names of owners, and groups as "group:NAME". Empty: all owners.
    max_grace_ms: Optional[int] = one("long")  # Longest time to save a checkpoint that a job may request.
    idle_after_ms: Optional[int] = one("long")  # how long a running job does nothing until idle_then applies
    idle_then: IdleAction = plain("IdleAction", IdleAction.UNSPECIFIED)  # UNSPECIFIED: inherited from the parent, else REPORT


@dataclass
class QueueUsage(Message):
    """QueueUsage is the usage and the waiting demand of a queue and its descendants. An element that has become a job counts as one job. The array itself does not count."""
    queue: str = plain("str")  # empty: jobs that name no queue, if there is no default
    running: int = plain("long")  # jobs that run, and jobs whose nodes are being reserved
    waiting: int = plain("long")
    held: int = plain("long")
    in_use: Optional[Resources] = one("Resources")  # of the running jobs
    wanted: Optional[Resources] = one("Resources")  # of the waiting jobs, without held jobs
    oldest_unix_ms: int = plain("long")  # submit time of the job that has waited longest; 0: no job waits


@dataclass
class Queues(Message):
    """Queues is the complete configuration. It is replaced as a whole, so a tree never mixes two configurations."""
    default: str = plain("str")  # queue of jobs that name none; empty: such jobs are refused
    queues: List[QueueSpec] = many("QueueSpec")


@dataclass
class RankSaved(Message):
    """RankSaved is the acknowledgement of one rank that it has saved a checkpoint."""
    rank: int = plain("int")
    request: int = plain("long")  # the request that it acknowledges
    steps: List[int] = many("long")  # that it has saved for this request, the newest last; empty: it exited without a step
    exited: bool = plain("bool")  # it has exited with the code that says that it has saved
    problem: str = plain("str")  # why its file could not be read; empty: no problem


@dataclass
class ReadLogs(Message):
    """ReadLogs requests the output of a job's tasks."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an id or a unique prefix
    ranks: List[int] = many("int")  # empty: all
    follow: bool = plain("bool")  # until the job has finished, including later attempts
    previous: bool = plain("bool")  # the attempt before the latest
    tail_bytes: int = plain("long")  # of each task; 0: from the beginning
    attempt: Optional[Token] = one("Token")  # to resume: the attempt that was being read
    from_: List[LogPosition] = many("LogPosition", name="from")  # to resume: the positions; a stream that is not listed starts at the beginning
    tail_lines: int = plain("int")  # of each stream of a task; 0: from the beginning, or see tail_bytes
    times: bool = plain("bool")  # also send the times of the data


@dataclass
class ReadPast(Message):
    """ReadPast requests the states of the cluster in a time range, or its sums."""
    principal: Optional[Principal] = one("Principal")
    at_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")
    step_ms: int = plain("long")  # if set, sums are returned, averaged over this step


@dataclass
class ReadScript(Message):
    """ReadScript requests the text of a script. Nodes request it too, once each."""
    principal: Optional[Principal] = one("Principal")
    digest: str = plain("str")


@dataclass
class ReadSecrets(Message):
    """ReadSecrets requests the secrets of an attempt's job with their values. Only a node with tasks of the attempt gets them, and only until the attempt has ended."""
    job: str = plain("str")  # ID
    attempt: Optional[Token] = one("Token")


@dataclass
class Relaxation(Message):
    """Relaxation is a change with which a job would start now."""
    text: str = plain("str")
    needs: Optional[Demand] = one("Demand")  # the changed request; unset for other changes
    return_nodes: List[str] = many("str")  # nodes that would have to return
    time_limit_ms: int = plain("long")
    before: List[JobName] = many("JobName")  # with this limit the job ends before these jobs' reservations begin


@dataclass
class Rendezvous(Message):
    """Rendezvous is the address of rank 0 and the list of all members."""
    address: str = plain("str")
    port: int = plain("int")
    peers: List[Peer] = many("Peer")  # in rank order
    roster: bytes = plain("bytes")  # The peers, packed (roster.go), instead of the field peers. Used only on nodes, never on the leader's disk.


@dataclass
class Requeue(Message):
    """client → Scheduler → Job. Ends the running attempt and returns the job to its old place in the queue. The attempt does not count as a failure. Answered when the end of the attempt is on disk."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")
    attempt: int = plain("int")  # Number of the attempt to stop, so that a repeated request stops only one; 0: the current attempt.
    hold: bool = plain("bool")  # also hold the job until it is released
    checkpoint: bool = plain("bool")  # request a checkpoint first; the answer does not wait for it


@dataclass
class RequeueReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    attempt: int = plain("int")  # number of the attempt that is being stopped; 0: no attempt was running


@dataclass
class Resources(Message):
    """Resources is an amount of CPU, memory and GPUs. A GPU amount is in thousandths of a device."""
    milli_cpu: int = plain("long")
    memory_bytes: int = plain("long")
    milli_gpu: int = plain("long")


@dataclass
class RestartSpec(Message):
    limit: int = plain("int")  # failures of tasks; failures of nodes have a separate limit
    backoff_ms: int = plain("long")
    never: bool = plain("bool")  # A task never runs twice: an attempt that may have run ends the job, whatever the cause.
    in_place: bool = plain("bool")  # After a failure of a task, the next attempt starts on the same nodes. They keep the job's resources meanwhile.
    in_place_grace_ms: int = plain("long")  # grace of the other tasks when one fails; 0: the default of a restart in place
    swap_wait_ms: int = plain("long")  # how long the rest of the gang waits for another node; 0: the default
    spares: int = plain("int")  # nodes that the job holds in addition, each for one task, to replace lost ones


@dataclass
class RevokePass(Message):
    """RevokePass deletes a token, which is then refused. A token that is not listed is already refused."""
    id: str = plain("str")  # or a unique prefix


@dataclass
class RevokePassReply(Message):
    id: str = plain("str")
    role: str = plain("str")
    name: str = plain("str")


@dataclass
class Right(Message):
    """Right is a permission of a role."""
    name: str = plain("str")
    text: str = plain("str")  # description
    own: bool = plain("bool")  # only for the caller's own jobs
    of_job: bool = plain("bool")  # applies to one job


@dataclass
class Saved(Message):
    """Saved is the last checkpoint that the gang of an attempt has acknowledged."""
    step: int = plain("long")  # the highest step that all required ranks acknowledged; 0: they named none
    request: int = plain("long")  # the request to save
    at_unix_ms: int = plain("long")  # by the wall clock, only for display
    ran_ms: int = plain("long")  # run time of the attempt until then, by the leader's steady clock; 0: unknown


@dataclass
class Saving(Message):
    """Saving is the last request to the tasks of an attempt to save a checkpoint."""
    request: int = plain("long")
    state: SaveState = plain("SaveState", SaveState.UNSPECIFIED)
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)  # why the attempt will be stopped; UNSPECIFIED: it continues
    subject: str = plain("str")  # same as in Warn
    asked_unix_ms: int = plain("long")
    deadline_unix_ms: int = plain("long")
    acknowledged: List[RankSaved] = many("RankSaved")  # in rank order
    step: int = plain("long")  # acknowledged by all required ranks; 0: none
    problem: str = plain("str")  # the first problem of a rank


@dataclass
class Script(Message):
    """Script is a file that is submitted with the job. Each task runs a separate copy."""
    name: str = plain("str")  # name of the file
    digest: str = plain("str")  # digest of the text, which is the key in the leader's store
    size_bytes: int = plain("long")  # size of the text
    args: List[str] = many("str")
    text: bytes = plain("bytes")  # only between client and gateway; never in a record, and never sent to a node


@dataclass
class ScriptText(Message):
    text: bytes = plain("bytes")


@dataclass
class Secret(Message):
    """Secret is a value that only the tasks of the job can read."""
    name: str = plain("str")
    env: bool = plain("bool")  # true: the environment variable with this name; false: the file with this name in /run/secrets
    value: bytes = plain("bytes")  # Only on the way from client to gateway and from gateway to node; never in a stored spec.


@dataclass
class Secrets(Message):
    """Secrets are all secrets of a job with their values: the gateway seals them, and a node receives them on request."""
    secrets: List[Secret] = many("Secret")


@dataclass
class SliceReport(Message):
    """SliceReport is one allocation in a node's report of its ledger."""
    token: Optional[Token] = one("Token")
    job: str = plain("str")
    state: SliceState = plain("SliceState", SliceState.UNSPECIFIED)
    grants: List[Grant] = many("Grant")
    exits: List[Exit] = many("Exit")
    rendezvous_port: int = plain("int")
    expires_in_ms: int = plain("long")  # of a reservation
    runtime_ms: int = plain("long")  # Time since the last member began, by the node's steady clock, even if that member has ended. 0 if the time is unknown or a member has not begun.
    exit_ages_ms: List[int] = many("long")  # same as in Exited
    held_ms: int = plain("long")  # time since the reservation, by the node's steady clock; 0: an older version wrote this
    vacated: bool = plain("bool")  # its resources already count as free, but its end is not on disk yet
    held: bool = plain("bool")  # it has ended, and the node keeps its resources for the next attempt


@dataclass
class SlowRank(Message):
    """SlowRank is a rank that needs more than 1.2 times the median time for a step, and has for at least 20 steps."""
    rank: int = plain("int")
    node: str = plain("str")
    percent: int = plain("long")  # its time for a step, in percent of the median
    steps: int = plain("long")  # that it has made since it became slow
    step_us: int = plain("long")  # its time for a step, in microseconds


@dataclass
class Space(Message):
    """Space is the topology domain that could hold the largest part of a job."""
    level: str = plain("str")  # empty: the cluster
    domain: str = plain("str")
    free: Optional[Resources] = one("Resources")  # on nodes that match the job; only the resource that is short
    total: Optional[Resources] = one("Resources")
    usable: Optional[Resources] = one("Resources")  # of the free resources
    nearest: str = plain("str")  # node that lacks least for one task
    nearest_asked: Optional[Resources] = one("Resources")  # request of one task; only the resources that are short
    nearest_has: Optional[Resources] = one("Resources")
    unmet: str = plain("str")  # request that no node meets
    nodes: int = plain("int")
    nodes_other: int = plain("int")  # do not match the job
    nodes_unavailable: int = plain("int")
    nodes_excluded: int = plain("int")
    nodes_useful: int = plain("int")  # can hold a part of the job
    nodes_without_gpus: int = plain("int")  # too few GPUs are free
    nodes_without_cpus: int = plain("int")
    nodes_without_memory: int = plain("int")


@dataclass
class Spare(Message):
    """Spare is a node that a job holds without a task on it, to replace a lost one."""
    node: str = plain("str")
    machine_id: str = plain("str")


@dataclass
class Stall(Message):
    """Stall is the finding that no rank of an attempt makes progress."""
    rank: int = plain("int")  # the rank that stopped first, or -1 if no rank stands out
    node: str = plain("str")  # of that rank
    wait: Wait = plain("Wait", Wait.UNSPECIFIED)  # what that rank does
    call: str = plain("str")  # its system call
    since_unix_ms: int = plain("long")  # when that rank stopped, or the last step of all ranks, by the leader's wall clock
    step: int = plain("long")  # the lowest step
    text: str = plain("str")  # all of this in one sentence
    why: str = plain("str")  # the evidence by which the rank was chosen; empty: no rank was


@dataclass
class StopSpec(Message):
    signal: int = plain("int")  # 0: SIGTERM
    grace_ms: int = plain("long")  # 0: the default


@dataclass
class Submit(Message):
    """client → Scheduler. Idempotent by (principal, request id). Answered when the job is on disk."""
    principal: Optional[Principal] = one("Principal")
    request_id: str = plain("str")
    spec: Optional[JobSpec] = one("JobSpec")
    allow_infeasible: bool = plain("bool")
    sealed: bytes = plain("bytes")  # the spec's secrets with their values; the gateway seals them and overwrites a client's value
    exempt: bool = plain("bool")  # the caller is an admin, so owner limits do not apply; the gateway overwrites a client's value
    groups: List[str] = many("str")  # The caller's groups, from the issuer of the token; the gateway overwrites a client's value.
    hold: bool = plain("bool")  # the job waits until it is released
    copyOf: str = plain("str")  # The scheduler submits a copy of this job, and ignores the spec. The caller must have the right to read the job's environment and command.
    web_source: str = plain("str")  # Set by the web UI: `sha256:` and the hash of the job file, or `again`. It requires the right submit-web.


@dataclass
class SubmitReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")


@dataclass
class Suspicion(Message):
    """Suspicion holds the failures of jobs that count against a node."""
    suspected: bool = plain("bool")  # big gangs avoid the node if they can
    backed_off_until_unix_ms: int = plain("long")  # the node gets no new work until then; 0: it is not backed off for this reason
    failures: List[NodeFailure] = many("NodeFailure")  # oldest first


@dataclass
class Swapped(Message):
    """Swapped is a node that another one replaces in a restart in place."""
    node: str = plain("str")
    by: str = plain("str")


@dataclass
class Token(Message):
    """Token identifies one attempt. Tokens are ordered and never reused, not even by a later leader."""
    epoch: int = plain("long")
    counter: int = plain("long")


@dataclass
class Told(Message):
    """Told is the first estimate of a waiting job's start. The attempt has the time of its COMMIT, so the two together show the accuracy of the estimate."""
    estimated_unix_ms: int = plain("long")  # By the wall clock, only for display, as are all values that are derived from it.
    expected_ms: int = plain("long")  # time from the estimate until the expected start
    bound_ms: int = plain("long")  # time from the estimate until the latest start; 0: no latest start was known


@dataclass
class TopologySpec(Message):
    required: str = plain("str")  # a topology level, or empty
    preferred: str = plain("str")
    patience_ms: int = plain("long")  # how long to wait for the preferred level


@dataclass
class UnavailableNode(Message):
    """UnavailableNode is a node that matches a job but takes no tasks."""
    node: str = plain("str")
    reason: str = plain("str")  # text that includes by and note
    by: str = plain("str")  # user who drained or cordoned it
    note: str = plain("str")  # that user's text


@dataclass
class Update(Message):
    """client → Scheduler → Job. Changes the request of a live job. Answered when the change is on disk. A repeated request changes nothing."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    set_priority: bool = plain("bool")
    priority: int = plain("int")  # new priority in the queue
    set_time_limit: bool = plain("bool")
    time_limit_ms: int = plain("long")  # new time limit, also of the running attempt, counted from its start; 0: no limit
    reason: str = plain("str")
    set_begin: bool = plain("bool")
    begin_unix_ms: int = plain("long")  # earliest start of a waiting job; 0: no earliest start
    give_to: str = plain("str")  # new owner of a job of anonymous; empty: the owner does not change
    set_array_max_running: bool = plain("bool")
    array_max_running: int = plain("int")  # Of an array: most elements that may run at once; 0: no limit.
    exempt: bool = plain("bool")  # the caller is an admin; the gateway overwrites a client's value
    groups: List[str] = many("str")  # same as in Submit
    set_deadline: bool = plain("bool")
    deadline_unix_ms: int = plain("long")  # latest end of a waiting job; 0: no deadline


@dataclass
class UpdateReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    priority: int = plain("int")  # this value and the following are the values on disk
    time_limit_ms: int = plain("long")
    time_is_up: bool = plain("bool")  # the attempt has already run longer than the new limit, so it is being ended
    begin_unix_ms: int = plain("long")
    given_to: str = plain("str")
    array_max_running: int = plain("int")
    deadline_unix_ms: int = plain("long")


@dataclass
class Use(Message):
    """Use is what a running task uses. On its way to the leader, the values of several tasks are added up."""
    tasks: int = plain("int")  # number of measured tasks
    processes: int = plain("int")
    cpu_ms: int = plain("long")  # CPU time since the start
    milli_cpu: int = plain("long")  # thousandths of a core, in the last 10 seconds
    memory_bytes: int = plain("long")
    peak_memory_bytes: int = plain("long")  # highest peak of a single task
    disk_bytes: int = plain("long")  # read from and written to disks since the start
    network_bytes: int = plain("long")  # received and sent since the start, without tasks that share the network of their node
    network_tasks: int = plain("int")  # number of tasks whose network_bytes are known
    gpus: int = plain("int")  # number of GPUs whose activity is known
    gpu_percent: int = plain("long")  # added up over these GPUs: the share of the last minute in which the GPU was busy
    gpu_hour_percent: int = plain("long")  # the same in the last hour
    gpu_memory_bytes: int = plain("long")  # in use on these GPUs
    idle_ms: int = plain("long")  # For how long the task is known to be idle: it has no process, or none of its GPUs was busy and its step did not change. 0: it works, or that is unknown. Of several tasks: the shortest time.


@dataclass
class Verdict(Message):
    """Verdict is the cause of a failed attempt, with its evidence."""
    class_: FailureClass = plain("FailureClass", FailureClass.UNSPECIFIED, name="class")
    rank: int = plain("int")  # the first rank that failed, or -1
    node: str = plain("str")  # of that rank, or the node that failed
    reason: str = plain("str")  # such as: exited with code 1
    others: int = plain("int")  # ranks that ended because of it
    charged: bool = plain("bool")  # the failure counts against restart.limit
    repeated: bool = plain("bool")  # the last attempt failed with the same error at the same step, so the job is not retried
    evidence: Optional[Evidence] = one("Evidence")
    explanation: str = plain("str")  # A better reason, with text that the rank printed or that is in the kernel log, such as: CUDA out of memory in train.py:211. Empty: there is none, or the reader may not see such texts.


@dataclass
class Victim(Message):
    """Victim is an attempt that is stopped for a job."""
    job: str = plain("str")
    token: Optional[Token] = one("Token")
    rule: PreemptionRule = plain("PreemptionRule", PreemptionRule.UNSPECIFIED)
    lost_milli_gpu_seconds: int = plain("long")  # lost work, as estimated when the stop was decided


@dataclass
class WarnSpec(Message):
    """WarnSpec is a signal that is sent before a planned end: a time limit, a drain with a deadline, or a preemption."""
    signal: int = plain("int")
    ahead_ms: int = plain("long")


@dataclass
class Warning(Message):
    """Warning is the announced end of an attempt, as sent to its tasks, or the notice that the job does nothing."""
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)  # UNSPECIFIED: no end is coming, see idle_ms
    at_unix_ms: int = plain("long")  # when the last task received the warning
    ends_unix_ms: int = plain("long")
    idle_ms: int = plain("long")  # how long the job had done nothing; 0: an end is coming


@dataclass
class Watch(Message):
    """client → Mirror. Sends changes as Events until Unwatch."""
    principal: Optional[Principal] = one("Principal")
    jobs: bool = plain("bool")
    nodes: bool = plain("bool")
    ids: List[str] = many("str")  # only these jobs and nodes; empty: all
    owner: str = plain("str")  # of jobs
    queue: str = plain("str")
    labels: List[Label] = many("Label")
    present: bool = plain("bool")  # send the current state first, as Events, and then one Event with synced
    after: int = plain("long")  # send the changes after this seq first, if the Mirror still has them
    reasons: bool = plain("bool")  # Of jobs: also send changes of a group's reason. If very many reasons change at once, only some are sent.
    usage: bool = plain("bool")  # Of nodes: also send each node whose ledger has changed. Such an Event has no text, and its seq is the seq of the last change.
    array: str = plain("str")  # of jobs: only this array and its elements that have become jobs; empty: all
    progress: bool = plain("bool")  # Of jobs: also send each job whose progress or GPU use has changed. Such an Event has no text, and its seq is the seq of the last change.


@dataclass
class WhoAmI(Message):
    """WhoAmI requests the identity of the caller."""


@dataclass
class WhoAmIReply(Message):
    cluster: str = plain("str")  # empty: the scheduler uses plaintext, and every caller is anonymous with all rights
    role: str = plain("str")
    name: str = plain("str")  # the owner of jobs that the caller submits
    until_unix_ms: int = plain("long")  # expiry of the caller's certificate or token
    rights: List[Right] = many("Right")  # all rights of the role
    pass_: str = plain("str", name="pass")  # ID of the caller's token; empty: the caller has a certificate
    groups: List[str] = many("str")  # of the caller, from the issuer of its token; `owners` of queues may name them


class Calls:
    """Each call of the API as it is; Client has what is made of them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(self, request: Submit) -> SubmitReply:
        return self._transport.call("Submit", request, SubmitReply)

    def submit_script(self, request: Submit) -> SubmitReply:
        """SubmitScript submits a job with the text of its script, which the store keeps separately. It is a separate call, because older schedulers would lose the script."""
        return self._transport.call("SubmitScript", request, SubmitReply)

    def read_script(self, request: ReadScript) -> ScriptText:
        return self._transport.call("ReadScript", request, ScriptText)

    def submit_secret(self, request: Submit) -> SubmitReply:
        """SubmitSecret submits a job with the values of its secrets, and the text of its script if it has one. It is a separate call, because older schedulers would store the values unencrypted, as they store all unknown fields."""
        return self._transport.call("SubmitSecret", request, SubmitReply)

    def read_secrets(self, request: ReadSecrets) -> Secrets:
        return self._transport.call("ReadSecrets", request, Secrets)

    def dry_run(self, request: DryRun) -> DryRunReply:
        return self._transport.call("DryRun", request, DryRunReply)

    def cancel(self, request: Cancel) -> CancelReply:
        return self._transport.call("Cancel", request, CancelReply)

    def hold(self, request: Hold) -> HoldReply:
        return self._transport.call("Hold", request, HoldReply)

    def requeue(self, request: Requeue) -> RequeueReply:
        return self._transport.call("Requeue", request, RequeueReply)

    def checkpoint(self, request: Checkpoint) -> CheckpointReply:
        return self._transport.call("Checkpoint", request, CheckpointReply)

    def update(self, request: Update) -> UpdateReply:
        return self._transport.call("Update", request, UpdateReply)

    def change_node(self, request: ChangeNode) -> ChangeNodeReply:
        return self._transport.call("ChangeNode", request, ChangeNodeReply)

    def apply_queues(self, request: ApplyQueues) -> ApplyQueuesReply:
        return self._transport.call("ApplyQueues", request, ApplyQueuesReply)

    def get_queues(self, request: GetQueues) -> GetQueuesReply:
        return self._transport.call("GetQueues", request, GetQueuesReply)

    def get_efficiency(self, request: GetEfficiency) -> GetEfficiencyReply:
        return self._transport.call("GetEfficiency", request, GetEfficiencyReply)

    def get_job(self, request: GetJob) -> GetJobReply:
        return self._transport.call("GetJob", request, GetJobReply)

    def list_jobs(self, request: ListJobs) -> ListJobsReply:
        return self._transport.call("ListJobs", request, ListJobsReply)

    def list_nodes(self, request: ListNodes) -> ListNodesReply:
        return self._transport.call("ListNodes", request, ListNodesReply)

    def explain_job(self, request: ExplainJob) -> ExplainJobReply:
        return self._transport.call("ExplainJob", request, ExplainJobReply)

    def history(self, request: History) -> HistoryReply:
        return self._transport.call("History", request, HistoryReply)

    def watch(self, request: Watch) -> Answers[Event]:
        return self._transport.stream("Watch", request, Event)

    def read_logs(self, request: ReadLogs) -> Answers[LogPart]:
        return self._transport.stream("ReadLogs", request, LogPart)

    def read_past(self, request: ReadPast) -> Answers[PastPart]:
        """ReadPast returns the timeline of the cluster, as far as the leading scheduler has recorded it."""
        return self._transport.stream("ReadPast", request, PastPart)

    def exec(self, request: Iterable[ExecIn]) -> Answers[ExecOut]:
        """Exec runs an exec session in a task, and passes its input and output on. The first ExecIn contains the command, and the last ExecOut the result."""
        return self._transport.converse("Exec", request, ExecOut)

    def carry(self, request: Iterable[ExecOut]) -> Answers[ExecIn]:
        """Carry is the node's end of a requested exec session. The first ExecOut names the session."""
        return self._transport.converse("Carry", request, ExecIn)

    def reach(self, request: Iterable[ExecIn]) -> Answers[ExecOut]:
        """Reach runs an exec session in another task of the same attempt. A node calls it for one of its tasks."""
        return self._transport.converse("Reach", request, ExecOut)

    def own_job(self, request: OwnJob) -> OwnJobReply:
        """OwnJob reads or changes the job of a task. A node calls it for one of its tasks."""
        return self._transport.call("OwnJob", request, OwnJobReply)

    def cluster(self, request: Cluster) -> ClusterReply:
        return self._transport.call("Cluster", request, ClusterReply)

    def who_am_i(self, request: WhoAmI) -> WhoAmIReply:
        return self._transport.call("WhoAmI", request, WhoAmIReply)

    def create_pass(self, request: CreatePass) -> CreatePassReply:
        return self._transport.call("CreatePass", request, CreatePassReply)

    def list_passes(self, request: ListPasses) -> ListPassesReply:
        return self._transport.call("ListPasses", request, ListPassesReply)

    def revoke_pass(self, request: RevokePass) -> RevokePassReply:
        return self._transport.call("RevokePass", request, RevokePassReply)
