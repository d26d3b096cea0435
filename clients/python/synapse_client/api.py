"""The API's messages and calls, written by tools/protogen from the .proto files: do not edit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Iterable, List, Optional

from .codec import Answers, Message, Transport, many, one, plain


class AfterEnd(str, Enum):
    """AfterEnd says which end of a job another one waits for."""
    UNSPECIFIED = "AFTER_END_UNSPECIFIED"  # as AFTER_END_OK
    OK = "AFTER_END_OK"  # it succeeded
    ANY = "AFTER_END_ANY"
    FAILED = "AFTER_END_FAILED"  # any but that it succeeded


class Basis(str, Enum):
    """Basis is the ground on which a time is given."""
    UNSPECIFIED = "BASIS_UNSPECIFIED"
    LIMITS = "BASIS_LIMITS"  # the time limits of all jobs that are waited for
    LEARNED = "BASIS_LEARNED"  # how long jobs like those that are waited for took
    NONE = "BASIS_NONE"  # no time can be given


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
    START_BY = "CAUSE_START_BY"  # it ran on lent room, and had not passed its barrier by the latest moment for that
    UNWELL = "CAUSE_UNWELL"  # a check of a machine's own health failed before the barrier; agents are told MACHINE_LOST


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


class ExitKind(str, Enum):
    UNSPECIFIED = "EXIT_KIND_UNSPECIFIED"
    EXITED = "EXIT_KIND_EXITED"  # the process ran and is gone; code or signal say how
    LAUNCH_FAILED = "EXIT_KIND_LAUNCH_FAILED"  # 125: never the user's fault
    PREPARE_FAILED = "EXIT_KIND_PREPARE_FAILED"
    NEVER_STARTED = "EXIT_KIND_NEVER_STARTED"
    REBOOTED = "EXIT_KIND_REBOOTED"  # the machine rebooted, so it is gone
    SUPERVISOR_LOST = "EXIT_KIND_SUPERVISOR_LOST"  # gone, but nobody saw how
    REMOVED = "EXIT_KIND_REMOVED"  # the operator's word that the machine is gone


class Fault(str, Enum):
    """Fault says whose fault it is that a rank never ran. An agent that names none means FAULT_UNKNOWN."""
    UNSPECIFIED = "FAULT_UNSPECIFIED"  # it ran, or its agent is older than this field
    JOB = "FAULT_JOB"  # the job's spec and the machine's policy alone decided it: no other try can end differently
    MACHINE = "FAULT_MACHINE"  # nothing that the job names caused it
    UNKNOWN = "FAULT_UNKNOWN"  # what the job names is not available on this machine


class GpuClass(str, Enum):
    """GpuClass is what a GPU does, or why it does nothing."""
    UNSPECIFIED = "GPU_CLASS_UNSPECIFIED"
    PRODUCTIVE = "GPU_CLASS_PRODUCTIVE"  # a gang that has passed its start barrier has it
    STARTING = "GPU_CLASS_STARTING"
    STOPPING = "GPU_CLASS_STOPPING"
    LOST = "GPU_CLASS_LOST"  # it was productive, and what it did was lost with its gang
    KEPT = "GPU_CLASS_KEPT"  # free, and kept for a promise
    IDLE_WANTED = "GPU_CLASS_IDLE_WANTED"  # free, and some job waits that could use its type
    IDLE_UNWANTED = "GPU_CLASS_IDLE_UNWANTED"
    BROKEN = "GPU_CLASS_BROKEN"
    CLOSED = "GPU_CLASS_CLOSED"  # free, and people closed its machine


class GpuTimeKind(str, Enum):
    """GpuTimeKind is of whom a row of GPU time is."""
    UNSPECIFIED = "GPU_TIME_KIND_UNSPECIFIED"
    CLUSTER = "GPU_TIME_KIND_CLUSTER"
    OWNER = "GPU_TIME_KIND_OWNER"
    QUEUE = "GPU_TIME_KIND_QUEUE"


class JobState(str, Enum):
    UNSPECIFIED = "JOB_STATE_UNSPECIFIED"
    QUEUED = "JOB_STATE_QUEUED"
    ACTIVE = "JOB_STATE_ACTIVE"  # an attempt is committed and not yet over
    SUCCEEDED = "JOB_STATE_SUCCEEDED"
    FAILED = "JOB_STATE_FAILED"
    CANCELLED = "JOB_STATE_CANCELLED"
    TIMED_OUT = "JOB_STATE_TIMED_OUT"


class Launch(str, Enum):
    """Launch is what starts a task's processes, which decides the variables in its environment (docs/reference/environment.md)."""
    UNSPECIFIED = "LAUNCH_UNSPECIFIED"  # as LAUNCH_AUTO
    AUTO = "LAUNCH_AUTO"  # all variables that mislead no launcher
    TORCHRUN = "LAUNCH_TORCHRUN"
    JAX = "LAUNCH_JAX"  # one process for each task, with all of its devices
    SLURM = "LAUNCH_SLURM"  # the task is like a task of Slurm
    MPI = "LAUNCH_MPI"  # mpirun, on rank 0
    DEEPSPEED = "LAUNCH_DEEPSPEED"
    NONE = "LAUNCH_NONE"  # only its identity and what it was granted


class Network(str, Enum):
    """Network is the network that a task sees."""
    UNSPECIFIED = "NETWORK_UNSPECIFIED"  # as NETWORK_HOST
    HOST = "NETWORK_HOST"  # the machine's
    NONE = "NETWORK_NONE"  # a loopback of its own
    PRIVATE = "NETWORK_PRIVATE"  # its own, with connections out through the machine's address and none in


class NodeVerb(str, Enum):
    UNSPECIFIED = "NODE_VERB_UNSPECIFIED"
    CORDON = "NODE_VERB_CORDON"  # nothing new
    UNCORDON = "NODE_VERB_UNCORDON"  # also ends a drain
    DRAIN = "NODE_VERB_DRAIN"  # nothing new, and what runs is moved by the deadline
    REMOVE = "NODE_VERB_REMOVE"  # it is gone: the operator's evidence
    NOTE = "NODE_VERB_NOTE"  # a note on it, in place of the last; without a reason the note is removed


class PreemptionRule(str, Enum):
    """PreemptionRule is by which right an attempt is stopped for another job."""
    UNSPECIFIED = "PREEMPTION_RULE_UNSPECIFIED"
    PRIORITY = "PREEMPTION_RULE_PRIORITY"  # it has the lower priority, in the same queue
    RECLAIM = "PREEMPTION_RULE_RECLAIM"  # its queue has more than its quota, and the other's has not
    SHORTEST = "PREEMPTION_RULE_SHORTEST"  # it is expected to go on for much longer, in the same queue


class QueueOrder(str, Enum):
    UNSPECIFIED = "QUEUE_ORDER_UNSPECIFIED"  # the parent's
    EXPECTED = "QUEUE_ORDER_EXPECTED"
    FIFO = "QUEUE_ORDER_FIFO"
    FAIR = "QUEUE_ORDER_FAIR"


class SliceState(str, Enum):
    UNSPECIFIED = "SLICE_STATE_UNSPECIFIED"
    RESERVED = "SLICE_STATE_RESERVED"
    COMMITTED = "SLICE_STATE_COMMITTED"
    PREPARED = "SLICE_STATE_PREPARED"
    STARTED = "SLICE_STATE_STARTED"  # past the barrier
    STOPPING = "SLICE_STATE_STOPPING"
    OVER = "SLICE_STATE_OVER"  # holds nothing but its exits, until Forget


class Split(str, Enum):
    UNSPECIFIED = "SPLIT_UNSPECIFIED"
    WHOLE = "SPLIT_WHOLE"  # whole machines, then one remainder
    ANY = "SPLIT_ANY"  # whatever is free


@dataclass
class After(Message):
    """After is a job that must end before another one is planned."""
    job: str = plain("str")  # its id
    end: AfterEnd = plain("AfterEnd", AfterEnd.UNSPECIFIED)


@dataclass
class AfterKnown(Message):
    """AfterKnown is how a job that another one waits for has ended, as that one's record has it: it holds when the other's record is forgotten."""
    job: str = plain("str")
    state: JobState = plain("JobState", JobState.UNSPECIFIED)  # unspecified: nobody knows any more


@dataclass
class Amount(Message):
    """Amount is so much of one thing: GPUs in all or those of one type, in thousandths; CPU in thousandths of a core; memory in bytes."""
    name: str = plain("str")
    amount: int = plain("long")


@dataclass
class Announcement(Message):
    """Announcement is what a machine is."""
    total: Optional[Resources] = one("Resources")
    gpus: List[Gpu] = many("Gpu")
    topology: List[Label] = many("Label")  # level and name, coarse to fine
    labels: List[Label] = many("Label")
    address: str = plain("str")  # where other members reach it
    port_first: int = plain("int")  # of the ledger's range of rendezvous ports
    port_last: int = plain("int")
    agent_version: str = plain("str")
    vocabulary: int = plain("int")  # as in Hello; here it is on disk, so that a job is never placed on an agent that does not understand it
    networks: List[Network] = many("Network")  # that it can give to tasks, beside its own; none from an earlier version
    secret_files: bool = plain("bool")  # it can give secrets to tasks as files …
    secret_env: bool = plain("bool")  # … and as variables; neither from an earlier version


@dataclass
class ApplyQueues(Message):
    """client → Scheduler: these are the queues from now on. Acknowledged once on disk."""
    principal: Optional[Principal] = one("Principal")
    queues: Optional[Queues] = one("Queues")
    revision: int = plain("long")  # that it replaces; 0: whichever there is
    dry_run: bool = plain("bool")  # nothing is written


@dataclass
class ApplyQueuesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    revision: int = plain("long")  # as it is now, or would be
    unchanged: bool = plain("bool")  # they were these already
    removed: List[str] = many("str")  # queues that are not described and have jobs: nothing new, and what waits goes on


@dataclass
class ArrayCounts(Message):
    """ArrayCounts is how many elements of an array stand where."""
    waiting: int = plain("int")  # jobs or not yet
    running: int = plain("int")
    succeeded: int = plain("int")
    failed: int = plain("int")  # or out of time
    cancelled: int = plain("int")


@dataclass
class ArrayRecord(Message):
    """ArrayRecord is what is kept of an array beside what all jobs have."""
    ended: List[ElementsEnded] = many("ElementsEnded")
    held: List[IndexRange] = many("IndexRange")  # places that are not to become jobs before they are released
    reach: int = plain("int")  # no place from here on was ever a job
    hold: Optional[Deed] = one("Deed")  # of the array as a whole: JobRecord.hold is for leaders of an earlier version
    changed: List[ElementsChanged] = many("ElementsChanged")  # of those that are no jobs yet: one that is has it in its own record


@dataclass
class ArraySpec(Message):
    """ArraySpec says how many jobs an array is of."""
    indices: List[IndexRange] = many("IndexRange")  # in the order in which they come, each once
    max_running: int = plain("int")  # so many of them run at once at most; 0: any number


@dataclass
class AttemptRecord(Message):
    """AttemptRecord is COMMIT; with `end`, ENDED. If an attempt has an end, a place without exit, on a machine that could not be reached, is a debt of that machine."""
    job: str = plain("str")
    token: Optional[Token] = one("Token")
    number: int = plain("int")
    ranks: List[Place] = many("Place")
    rendezvous: Optional[Rendezvous] = one("Rendezvous")
    committed_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")
    end: Optional[End] = one("End")
    start_by_left_ms: int = plain("long")  # on lent room, the time from COMMIT until it must have passed its barrier; 0: not bounded
    first_estimate: Optional[Told] = one("Told")  # the first promise to its job while it waited for this; none: there was none
    victims: List[Victim] = many("Victim")  # they were stopped for it
    reserving_ms: int = plain("long")  # from its first Reserve until all its machines had reserved; 0: an earlier version wrote it
    preparing_ms: int = plain("long")  # from its COMMIT until all were prepared; 0: they never were, or one leader saw only a part of it


@dataclass
class Cancel(Message):
    """client → Scheduler → Job. Acknowledged once the cancel is on disk."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")


@dataclass
class CancelReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")


@dataclass
class ChangeNode(Message):
    """operator → Scheduler. Acknowledged once on disk."""
    principal: Optional[Principal] = one("Principal")
    node: str = plain("str")
    verb: NodeVerb = plain("NodeVerb", NodeVerb.UNSPECIFIED)
    reason: str = plain("str")
    deadline_ms: int = plain("long")  # of a drain: how long gangs may still run
    at_unix_ms: int = plain("long")  # of a drain: its begin, by the leader's wall clock; 0 or a past time: at once


@dataclass
class ChangeNodeReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    node: str = plain("str")


@dataclass
class Cluster(Message):
    """Cluster asks which cluster and scheduler the client speaks to."""


@dataclass
class ClusterReply(Message):
    cluster_id: str = plain("str")
    epoch: int = plain("long")
    version: str = plain("str")
    levels: List[str] = many("str")  # of the fabric, coarse to fine


@dataclass
class CreatePass(Message):
    """CreatePass keeps a token of a person, by a hash: its secret is made by whoever asks, and does not travel. The same hash again gets the same answer."""
    hash: bytes = plain("bytes")  # SHA-256 of the secret
    role: str = plain("str")
    name: str = plain("str")  # of the person
    ttl_ms: int = plain("long")


@dataclass
class CreatePassReply(Message):
    id: str = plain("str")
    until_unix_ms: int = plain("long")


@dataclass
class Deed(Message):
    """Deed is an operator's or user's action on a job or a node."""
    by: Optional[Principal] = one("Principal")
    at_unix_ms: int = plain("long")
    reason: str = plain("str")


@dataclass
class DryRun(Message):
    """client → Scheduler: what would happen to this Submit? Nothing is written or reserved."""
    principal: Optional[Principal] = one("Principal")
    spec: Optional[JobSpec] = one("JobSpec")
    allow_infeasible: bool = plain("bool")
    exempt: bool = plain("bool")  # as of a Submit
    groups: List[str] = many("str")  # as of a Submit


@dataclass
class DryRunReply(Message):
    outcome: Optional[Outcome] = one("Outcome")  # as the Submit's would be
    reason: str = plain("str")  # why it would not start at once; empty: there is room for it
    ahead: int = plain("int")  # waiting jobs that go before it


@dataclass
class Element(Message):
    """Element is which one of an array's jobs this is."""
    array: str = plain("str")  # its id
    index: int = plain("int")
    count: int = plain("int")  # of the whole array
    first: int = plain("int")  # the least index
    last: int = plain("int")  # the greatest
    step: int = plain("int")  # between all of them; 0: they are not evenly spaced
    arrival: int = plain("long")  # of the array in the order of arrival: its elements wait in that place


@dataclass
class ElementsChanged(Message):
    """ElementsChanged are elements of an array that are to ask for something else than their array once they are jobs."""
    places: List[IndexRange] = many("IndexRange")
    set_priority: bool = plain("bool")
    priority: int = plain("int")
    set_time_limit: bool = plain("bool")
    time_limit_ms: int = plain("long")
    set_begin: bool = plain("bool")
    begin_unix_ms: int = plain("long")


@dataclass
class ElementsEnded(Message):
    """ElementsEnded are the elements of an array that have ended alike, by their places among its indices."""
    state: JobState = plain("JobState", JobState.UNSPECIFIED)  # unspecified: how they ended nobody knows any more
    unborn: bool = plain("bool")  # they never became jobs
    places: List[IndexRange] = many("IndexRange")


@dataclass
class End(Message):
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)
    detail: str = plain("str")
    rank: int = plain("int")  # of the first member to fail, or -1
    node: str = plain("str")
    at_unix_ms: int = plain("long")  # for people
    ran_ms: int = plain("long")  # since its barrier, by the leader's steady clock; 0: it had not passed that, or an earlier version wrote this
    preemption: Optional[Preemption] = one("Preemption")  # only where that is the cause


@dataclass
class EnvVar(Message):
    name: str = plain("str")
    value: str = plain("str")


@dataclass
class Event(Message):
    """Event is one change of a job or a machine as people see it. Mirror → client."""
    seq: int = plain("long")  # grows by one with each change; a new leader begins again
    at_unix_ms: int = plain("long")
    text: str = plain("str")  # the change in words
    job: Optional[JobStatus] = one("JobStatus")  # one of job, node and group
    node: Optional[NodeStatus] = one("NodeStatus")
    hidden: bool = plain("bool")  # the machine is no longer shown
    synced: bool = plain("bool")  # the present state has been sent
    group: int = plain("long")  # all waiting jobs of this group have another reason now; that is no change of a job, so seq is that of the last change
    reason: str = plain("str")
    group_jobs: int = plain("int")  # how many jobs the group has
    reason_code: str = plain("str")  # of reason


@dataclass
class ExecEnd(Message):
    """ExecEnd is how it ended."""
    code: int = plain("int")  # as a shell tells it: 128 + n for a signal; 125 to 127 where it could not be run
    text: str = plain("str")  # why, where it did not end by itself


@dataclass
class ExecIn(Message):
    """ExecIn is what comes for an exec session of a task. In the first, job to terminal are filled in."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an id or a unique prefix
    rank: int = plain("int")
    command: List[str] = many("str")  # and its arguments
    env: List[str] = many("str")  # NAME=value, beside those of the task and in place of them
    terminal: bool = plain("bool")
    stdin: bytes = plain("bytes")
    stdin_ends: bool = plain("bool")
    signal: int = plain("int")  # for its process group
    rows: int = plain("int")  # of the terminal
    columns: int = plain("int")
    helper: bool = plain("bool")  # the command is one of synapse-exec's, which the task has
    attempt: Optional[Token] = one("Token")  # of Reach: that of the caller, whose rank it is
    host: str = plain("str")  # of Reach: the machine of the other task, by name or address


@dataclass
class ExecOut(Message):
    """ExecOut is what comes of it."""
    session: str = plain("str")  # the first that a machine says
    begun: bool = plain("bool")
    stdout: bytes = plain("bytes")  # of a terminal all that is written
    stderr: bytes = plain("bytes")
    end: Optional[ExecEnd] = one("ExecEnd")  # the last
    stdout_ends: bool = plain("bool")  # nothing more comes of stdout; not said of a terminal


@dataclass
class Exit(Message):
    """Exit is how one rank ended: evidence that nothing of it runs."""
    rank: int = plain("int")
    kind: ExitKind = plain("ExitKind", ExitKind.UNSPECIFIED)
    code: int = plain("int")  # 128 + signal where a signal ended it
    signal: int = plain("int")
    oom: bool = plain("bool")
    at_unix_ms: int = plain("long")
    detail: str = plain("str")
    peak_memory_bytes: int = plain("long")
    fault: Fault = plain("Fault", Fault.UNSPECIFIED)  # of PREPARE_FAILED and LAUNCH_FAILED
    disk: bool = plain("bool")  # it was ended because of what it kept on the machine's disk; the detail says how much
    unhealthy: bool = plain("bool")  # of NEVER_STARTED: a check of the machine's health failed, which the detail names
    by_itself: bool = plain("bool")  # it ended before it was told to stop; unset: it was told, or an earlier version wrote this


@dataclass
class ExplainJob(Message):
    """client → Mirror: why does this job wait, or why would a job of this spec wait? Nothing is written."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # either this
    spec: Optional[JobSpec] = one("JobSpec")  # or this spec, which need not have been submitted


@dataclass
class ExplainJobReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    text: str = plain("str")


@dataclass
class GangSpec(Message):
    """GangSpec is the shape: replicas of JobSpec.each, or a total that is split with one task per machine."""
    replicas_min: int = plain("int")
    replicas_max: int = plain("int")  # equal to replicas_min until gangs are elastic
    total: Optional[Resources] = one("Resources")
    split: Split = plain("Split", Split.UNSPECIFIED)
    apart: bool = plain("bool")  # of replicas: each on a machine of its own


@dataclass
class GetEfficiency(Message):
    """client → Mirror: where the GPU time of the cluster went."""
    principal: Optional[Principal] = one("Principal")
    kind: GpuTimeKind = plain("GpuTimeKind", GpuTimeKind.UNSPECIFIED)  # unspecified: the cluster
    days: int = plain("int")  # the newest, the present one among them; 0: all


@dataclass
class GetEfficiencyReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    time: Optional[GpuTime] = one("GpuTime")
    now: List[GpuNow] = many("GpuNow")  # those that are not 0
    capacity_milli_gpu: int = plain("long")


@dataclass
class GetJob(Message):
    """client → Mirror."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an id or a unique prefix
    attempts: bool = plain("bool")  # with the attempts before the latest


@dataclass
class GetJobReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: Optional[JobStatus] = one("JobStatus")
    attempts: List[AttemptRecord] = many("AttemptRecord")  # all that are kept, without their ranks, the oldest first


@dataclass
class GetQueues(Message):
    """client → Mirror."""
    principal: Optional[Principal] = one("Principal")


@dataclass
class GetQueuesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    revision: int = plain("long")  # 0: nobody has described any, and every name is one
    queues: Optional[Queues] = one("Queues")
    applied: Optional[Deed] = one("Deed")
    usage: List[QueueUsage] = many("QueueUsage")  # of each queue that is described or has jobs, by name; an earlier scheduler leaves it out
    not_allowed: List[str] = many("str")  # queues whose owners, or those of a queue above, do not have who asks; of an admin's none


@dataclass
class Gpu(Message):
    """Gpu is one device of a machine; its id is the UUID the driver gives it."""
    id: str = plain("str")
    type: str = plain("str")
    memory_bytes: int = plain("long")
    bus_id: str = plain("str")
    minor: int = plain("int")
    declared: bool = plain("bool")  # named by the operator, not found by discovery
    fabric_domain: str = plain("str")  # the NVLink or xGMI island it belongs to


@dataclass
class GpuAmount(Message):
    """GpuAmount is how much GPU time a class has in a row."""
    class_: GpuClass = plain("GpuClass", GpuClass.UNSPECIFIED, name="class")
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)  # of what is lost
    milli_gpu_ms: int = plain("long")


@dataclass
class GpuNow(Message):
    """GpuNow is how many GPUs are in a class at the moment, in thousandths."""
    class_: GpuClass = plain("GpuClass", GpuClass.UNSPECIFIED, name="class")
    milli_gpu: int = plain("long")


@dataclass
class GpuShare(Message):
    """GpuShare is an amount of one device."""
    gpu_id: str = plain("str")
    milli: int = plain("long")


@dataclass
class GpuTime(Message):
    """GpuTime is where all GPU time went since somebody counts."""
    since_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")
    rows: List[GpuTimeRow] = many("GpuTimeRow")


@dataclass
class GpuTimeRow(Message):
    """GpuTimeRow is where the GPU time of one day went, of the cluster, an owner or a queue. In each kind the rows of a day have the cluster's capacity in all: what nobody has is in the row without a name."""
    kind: GpuTimeKind = plain("GpuTimeKind", GpuTimeKind.UNSPECIFIED)
    day: int = plain("long")  # since 1970, in UTC
    name: str = plain("str")  # `*`: all others
    amounts: List[GpuAmount] = many("GpuAmount")  # those that are not 0
    capacity_milli_gpu_ms: int = plain("long")  # in rows without a name; it is not computed from the amounts


@dataclass
class Grant(Message):
    """Grant is one rank's exact devices."""
    rank: int = plain("int")
    amount: Optional[Resources] = one("Resources")
    gpus: List[GpuShare] = many("GpuShare")


@dataclass
class History(Message):
    """client → gateway. An empty field fits any job that is over."""
    principal: Optional[Principal] = one("Principal")
    owner: str = plain("str")
    queue: str = plain("str")
    name: str = plain("str")
    states: List[JobState] = many("JobState")
    labels: List[Label] = many("Label")  # all of these
    since_unix_ms: int = plain("long")  # finished then or later; 0: from the beginning
    until_unix_ms: int = plain("long")  # finished earlier; 0: until now
    after: str = plain("str")  # page token: the last answer's next
    limit: int = plain("int")
    ranks: bool = plain("bool")  # each member with its machine, its devices and its end


@dataclass
class HistoryReply(Message):
    """The newest first. A page may be short or empty without being the last: the last one has an empty next."""
    outcome: Optional[Outcome] = one("Outcome")
    jobs: List[PastJob] = many("PastJob")
    next: str = plain("str")
    corrupted: List[str] = many("str")  # jobs that are left out: what is wrong with a record of each, in words


@dataclass
class Hold(Message):
    """client → Scheduler: a held job is not planned; a running one goes on."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")
    release: bool = plain("bool")


@dataclass
class HoldReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    release: bool = plain("bool")  # as asked: an array that waits for its elements' releases takes no answer to a hold for one


@dataclass
class IndexRange(Message):
    """IndexRange is every step-th number from the first to the last."""
    first: int = plain("int")
    last: int = plain("int")
    step: int = plain("int")  # 0: 1


@dataclass
class JobRecord(Message):
    """JobRecord is one job; its attempts are records of their own."""
    id: str = plain("str")
    revision: int = plain("long")
    written_by: Optional[Token] = one("Token")  # the write that made this revision: a repeated one is recognised by it
    spec: Optional[JobSpec] = one("JobSpec")
    owner: Optional[Principal] = one("Principal")
    request_id: str = plain("str")
    request_hash: bytes = plain("bytes")
    submitted_unix_ms: int = plain("long")
    arrival: int = plain("long")  # order among the queue; kept across restarts of the job
    state: JobState = plain("JobState", JobState.UNSPECIFIED)
    attempt: Optional[Token] = one("Token")  # the latest committed
    attempt_count: int = plain("int")
    failures: int = plain("int")  # counted against restart.limit
    infra_restarts: int = plain("int")  # counted against their limit
    not_before_unix_ms: int = plain("long")  # of the backoff, for people: leaders wait by their own steady clocks
    cancel: Optional[Deed] = one("Deed")
    hold: Optional[Deed] = one("Deed")
    exit_code: int = plain("int")  # of a terminal state
    outcome: str = plain("str")  # of a terminal state: rank, machine and cause in words
    finished_unix_ms: int = plain("long")
    prepare_failures: int = plain("int")  # part of infra_restarts, since a gang of the job last ran, its launches too: a broken image must not visit every machine
    runtime_ms: int = plain("long")  # how long its tasks ran, in all attempts that are over
    prepare_failed_on: List[str] = many("str")  # machines of prepare_failures, at most two: more would prove no more
    changed: Optional[Deed] = one("Deed")  # the last change of its priority, time limit or begin, which are in spec
    uid: int = plain("int")  # of its tasks on every machine, where its spec names no user, or root; 0: none was given
    memory_by_default: bool = plain("bool")  # its spec's memory is the default from the submit, which asked for none
    time_limit_by_default: bool = plain("bool")  # likewise its time limit
    planned_start: Optional[Promise] = one("Promise")  # the firm promise that it waits for; none: it has none, or only one that may move
    after_known: List[AfterKnown] = many("AfterKnown")  # of the jobs in its spec's after, those that have ended
    given_to: str = plain("str")  # whose a job of anonymous is since an admin said so; its owner stays in the books
    array: Optional[ArrayRecord] = one("ArrayRecord")  # of an array; such a job is always held, so that no leader of an earlier version runs it
    preemptions: int = plain("int")  # attempts that were stopped for other jobs: they count against nothing
    outranked: int = plain("int")  # of them, those that were stopped for another of their queue
    uid_to_come: bool = plain("bool")  # its tasks need a uid of the job's own, which is given before its first Reserve; uid is 0 until then
    exempt: bool = plain("bool")  # an admin submitted it: no limit of one owner holds for its uid
    uid_turn: int = plain("long")  # order in which uids were given; 0: none was, or an earlier version gave it by the arrival
    sealed: bytes = plain("bytes")  # its spec's secrets with their values, which a gateway's key alone opens; none of a job that is over


@dataclass
class JobSpec(Message):
    """JobSpec is one job, as validated by the gateway."""
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
    time_limit_ms: int = plain("long")  # of one attempt, from its start; 0: none
    prepare_timeout_ms: int = plain("long")  # 0: the default
    stop: Optional[StopSpec] = one("StopSpec")
    restart: Optional[RestartSpec] = one("RestartSpec")
    lost_grace_ms: int = plain("long")  # how long to wait for a lost machine to return with the attempt
    stop_when_lost_ms: int = plain("long")  # 0: tasks outlive the loss of the control plane
    limits_required: bool = plain("bool")  # refuse a machine that cannot enforce the limits
    nodes: List[str] = many("str")  # only on these machines; none: on any
    exclude: List[str] = many("str")  # never on these
    disk_bytes: int = plain("long")  # most that each task may keep in its scratch directory and writable layer; 0: the machine's default
    submit_dir: str = plain("str")  # where it was submitted: tasks on a machine's own root without a workdir begin there, if their user may
    script: Optional[Script] = one("Script")  # what each task runs in place of a command; sent only to a machine that understands it
    network: Network = plain("Network", Network.UNSPECIFIED)  # other than the machine's: only on machines that announce it
    begin_unix_ms: int = plain("long")  # not planned before then, by the leader's wall clock; 0 or a past time: at once
    launcher: Launch = plain("Launch", Launch.UNSPECIFIED)  # an agent that does not know the field does as LAUNCH_AUTO
    warn: Optional[WarnSpec] = one("WarnSpec")  # none: its tasks are told nothing before they are stopped
    priority_zero: bool = plain("bool")  # its priority is 0 because that was asked for: its queue's default does not hold
    after: List[After] = many("After")  # not planned before all of these have ended so; one that never will cancels it
    array: Optional[ArraySpec] = one("ArraySpec")  # none: one job
    element: Optional[Element] = one("Element")  # never submitted: the leader gives it to each job of an array
    not_preemptible: bool = plain("bool")  # it is not to be stopped for another, and so stays within its queue's quota
    checkpoint_ms: int = plain("long")  # it saves its work so often: a stop costs no more than that; 0: nobody says so
    secrets: List[Secret] = many("Secret")  # names and ways alone; their values are sealed in the job's record, and a machine asks for them
    title: str = plain("str")  # the name as it was given, if that is not its name: letters, digits, '.', '_' and '-'


@dataclass
class JobStatus(Message):
    """JobStatus is a job as people see it."""
    record: Optional[JobRecord] = one("JobRecord")
    phase: str = plain("str")  # one of Phases in phase.go
    reason: str = plain("str")  # why it is not running, now; for a waiting job a code and at most 60 columns: "Resources: needs 8 GPUs, 0 of 32 free"
    attempt: Optional[AttemptRecord] = one("AttemptRecord")  # the latest
    unconfirmed: List[str] = many("str")  # machines that still owe evidence
    tasks: int = plain("int")  # of the latest attempt, where a list leaves its ranks out
    group: int = plain("long")  # the waiting jobs of its shape, which share one reason; 0: it does not wait
    withheld: bool = plain("bool")  # env, command and script are left out, because another owner asked; never set in a record
    start: Optional[Prospect] = one("Prospect")  # of a waiting job, in answers to queries; events have none
    counts: Optional[ArrayCounts] = one("ArrayCounts")  # of an array
    reason_code: str = plain("str")  # the code of a waiting job's reason, one of WaitReasons in reason.go; none: the job does not wait
    warned: Optional[Warning] = one("Warning")  # of the attempt that runs; none: its tasks were told of no end, or by an earlier leader


@dataclass
class Kept(Message):
    """Kept is the room that is kept on a machine for one rank."""
    rank: int = plain("int")
    node: str = plain("str")
    machine_id: str = plain("str")  # another machine of that name keeps nothing
    amount: Optional[Resources] = one("Resources")


@dataclass
class Label(Message):
    key: str = plain("str")
    value: str = plain("str")


@dataclass
class LedgerReport(Message):
    """LedgerReport is a machine's whole books."""
    version: int = plain("long")
    total: Optional[Resources] = one("Resources")
    free: Optional[Resources] = one("Resources")
    free_gpus: List[GpuShare] = many("GpuShare")  # only devices with something free
    allocations: List[SliceReport] = many("SliceReport")
    withdrawn_gpus: List[str] = many("str")
    trouble: str = plain("str")  # why the machine cannot take work (for example its disk); empty: it can
    uids: List[int] = many("int")  # the uids from leaders that are in use on the machine, in order
    unhealthy: str = plain("str")  # which check of the machine's health failed last, and its words; empty: none did


@dataclass
class ListJobs(Message):
    principal: Optional[Principal] = one("Principal")
    owner: str = plain("str")
    queue: str = plain("str")
    phases: List[str] = many("str")
    labels: List[Label] = many("Label")
    after: str = plain("str")  # page token: the last id seen
    limit: int = plain("int")
    name: str = plain("str")  # only of this name
    array: str = plain("str")  # only the elements of this array that are, or were, jobs
    elements: bool = plain("bool")  # elements too, beside their arrays


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
    node: str = plain("str")  # an id: this machine alone, with the names in its users, which lists leave out; an earlier scheduler answers with a page


@dataclass
class ListNodesReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    nodes: List[NodeStatus] = many("NodeStatus")
    next: str = plain("str")


@dataclass
class ListPasses(Message):
    """ListPasses asks for all tokens of people that are good."""


@dataclass
class ListPassesReply(Message):
    passes: List[Pass] = many("Pass")  # by name, then by time


@dataclass
class LogPart(Message):
    """LogPart is a piece of one member's output. A piece ends at a line's end where there is one."""
    rank: int = plain("int")
    attempt: Optional[Token] = one("Token")
    stderr: bool = plain("bool")
    data: bytes = plain("bytes")
    notice: str = plain("str")  # instead of data: why a member's output cannot be read
    offset: int = plain("long")  # of what follows the data in this stream: to go on from here
    missing: bool = plain("bool")  # with a notice: the end of a member's output did not come in time, and is given up


@dataclass
class LogPosition(Message):
    """LogPosition is how far one member's stream was read."""
    rank: int = plain("int")
    stderr: bool = plain("bool")
    offset: int = plain("long")  # of the last LogPart that came


@dataclass
class MappedUser(Message):
    """MappedUser is the one account that jobs of an owner run as."""
    owner: str = plain("str")
    account: str = plain("str")
    uid: int = plain("int")  # of that account


@dataclass
class Mount(Message):
    source: str = plain("str")
    target: str = plain("str")
    read_only: bool = plain("bool")


@dataclass
class NodeRecord(Message):
    """NodeRecord is what is kept of a machine."""
    id: str = plain("str")
    revision: int = plain("long")
    written_by: Optional[Token] = one("Token")
    machine_id: str = plain("str")
    boot_id: str = plain("str")
    announcement: Optional[Announcement] = one("Announcement")
    cordoned: Optional[Deed] = one("Deed")
    drained: Optional[Deed] = one("Deed")
    drain_deadline_unix_ms: int = plain("long")  # for people: drain_left_ms is what counts
    backed_off: Optional[Deed] = one("Deed")  # informative: benches themselves live in the leader's memory
    removed: Optional[Deed] = one("Deed")
    joined_unix_ms: int = plain("long")
    drain_left_ms: int = plain("long")  # of the drain's deadline when this was written; 0: none, or an earlier version wrote it
    note: Optional[Deed] = one("Deed")  # from an operator, for people: it decides nothing
    planned_drain: Optional[Deed] = one("Deed")  # the order to drain it later: removed when the drain begins
    drain_starts_unix_ms: int = plain("long")  # when that is, by the leader's wall clock
    planned_drain_deadline_ms: int = plain("long")  # of the drain that begins then; 0: none


@dataclass
class NodeStatus(Message):
    """NodeStatus is a machine as people see it."""
    record: Optional[NodeRecord] = one("NodeRecord")
    phase: str = plain("str")  # up, dead, unknown
    unschedulable: str = plain("str")  # why nothing new goes there; empty: open
    ledger: Optional[LedgerReport] = one("LedgerReport")
    unconfirmed: List[Token] = many("Token")
    last_seen_ms_ago: int = plain("long")
    users: Optional[NodeUsers] = one("NodeUsers")  # as which accounts jobs run, in short, and in lists without names; none: the machine has not said, or its agent is of an earlier version


@dataclass
class NodeUsers(Message):
    """NodeUsers is how a node decides as which of its accounts a job runs that names a user. The node decides again when the job arrives: this only lets the scheduler refuse a job at once that every node would refuse."""
    any: bool = plain("bool")  # every account, for owners who have none of their own in mapped: there is no TLS, or users.any
    own: List[str] = many("str")  # accounts that a job of an owner of the same name may have, if that name is proven
    more: bool = plain("bool")  # there are more of these than own lists
    mapped: List[MappedUser] = many("MappedUser")  # users.owners of the node's policy
    own_count: int = plain("int")  # in an answer to people, which has the first of own and mapped alone: how many there are
    mapped_count: int = plain("int")


@dataclass
class Outcome(Message):
    """Outcome is in every answer: an error names the field and the way out."""
    code: Code = plain("Code", Code.UNSPECIFIED)
    field: str = plain("str")
    text: str = plain("str")
    hint: str = plain("str")


@dataclass
class Pass(Message):
    """Pass is a person's token without its hash."""
    id: str = plain("str")
    role: str = plain("str")
    name: str = plain("str")
    by: str = plain("str")
    made_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")


@dataclass
class PastAttempt(Message):
    """PastAttempt is the account of one attempt."""
    token: Optional[Token] = one("Token")
    number: int = plain("int")
    committed_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")  # 0: it never passed the barrier
    ended_unix_ms: int = plain("long")  # when its end was decided
    gone_unix_ms: int = plain("long")  # when the last of its members was gone; 0: not known of all
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)
    detail: str = plain("str")
    failed_rank: int = plain("int")  # the first to fail, or -1
    failed_node: str = plain("str")
    exit_code: int = plain("int")  # of that member
    signal: int = plain("int")  # likewise
    members: int = plain("int")
    nodes: List[str] = many("str")  # in the order of their ranks, each once
    milli_gpu: int = plain("long")  # held by all members together
    milli_gpu_ms: int = plain("long")  # from COMMIT until each member was gone
    peak_memory_bytes: int = plain("long")  # the largest of a member
    ranks: List[Place] = many("Place")  # only where ranks were asked for
    first_estimate: Optional[Told] = one("Told")  # the first promise to its job while it waited for this; none: there was none, or an earlier scheduler says nothing of it


@dataclass
class PastJob(Message):
    """PastJob is the account of one job that is over."""
    id: str = plain("str")
    name: str = plain("str")
    labels: List[Label] = many("Label")
    owner: str = plain("str")
    queue: str = plain("str")
    priority: int = plain("int")
    state: JobState = plain("JobState", JobState.UNSPECIFIED)
    exit_code: int = plain("int")
    reason: str = plain("str")  # in words
    submitted_unix_ms: int = plain("long")
    started_unix_ms: int = plain("long")  # of the first attempt that was started; 0: none was
    finished_unix_ms: int = plain("long")
    cancel: Optional[Deed] = one("Deed")
    attempt_count: int = plain("int")
    failures: int = plain("int")
    infra_restarts: int = plain("int")
    milli_gpu_ms: int = plain("long")  # thousandths of a GPU, times milliseconds, of all attempts
    attempts: List[PastAttempt] = many("PastAttempt")  # in order
    time_limit_ms: int = plain("long")  # of one attempt, from its start; 0: none
    gang: Optional[GangSpec] = one("GangSpec")  # as it was asked for; unset by an earlier scheduler
    each: Optional[Resources] = one("Resources")  # of one task, likewise
    title: str = plain("str")  # the name as it was given; empty: it is the name


@dataclass
class PastPart(Message):
    """PastPart is a piece of the answer: lines of JSON, of a record as `synapse-cli web --record` writes one, or a sum each."""
    lines: bytes = plain("bytes")
    since_unix_ms: int = plain("long")  # in the first: from when on something is kept; 0: nothing is
    until_unix_ms: int = plain("long")  # in the last: up to where this tells


@dataclass
class Peer(Message):
    rank: int = plain("int")
    node: str = plain("str")
    address: str = plain("str")
    rack: str = plain("str")


@dataclass
class Place(Message):
    """Place is one rank's machine in an attempt."""
    rank: int = plain("int")
    node: str = plain("str")
    machine_id: str = plain("str")
    grant: Optional[Grant] = one("Grant")
    address: str = plain("str")
    exit: Optional[Exit] = one("Exit")  # unset: no evidence that it is gone


@dataclass
class Preemption(Message):
    """Preemption is for whom an attempt was stopped."""
    for_job: str = plain("str")
    rule: PreemptionRule = plain("PreemptionRule", PreemptionRule.UNSPECIFIED)
    lost_milli_gpu_seconds: int = plain("long")


@dataclass
class Principal(Message):
    """Principal is the identity of the caller; without certificates it is "anonymous"."""
    name: str = plain("str")
    groups: List[str] = many("str")
    proven: bool = plain("bool")  # a certificate or token of this cluster names the person, or an issuer with localUsers: the name counts as that of a node's account. Gateways write it; what a client says is lost


@dataclass
class Promise(Message):
    """Promise is a firm promise: room that is kept for a waiting job until it starts there. No clock outlives a leader, so it says how much time was left when it was written; a next leader computes again when the machines are free."""
    pool: str = plain("str")  # the pool in which it is the job's turn: a GPU type; empty: machines without GPUs
    order: int = plain("long")  # among firm promises: a later one was planned beside the earlier ones
    reserved: List[Kept] = many("Kept")  # in rank order, machine by machine
    left_ms: int = plain("long")  # until the latest time at which it starts; 0: there is none, because something there has no limit
    overruns: int = plain("int")  # how often it may have had to wait for what was lent on an estimate
    attempt: int = plain("int")  # the run that it is for: once that has begun, nothing is kept
    first_estimate: Optional[Told] = one("Told")  # the first one, by this promise or one that could still move; none: lost with an earlier leader
    victims: List[Victim] = many("Victim")  # they are stopped for it; none: it waits for what ends by itself
    on_loan: bool = plain("bool")  # its queue borrows for it: it ends where somebody takes back what is assured to theirs


@dataclass
class Prospect(Message):
    """Prospect is when a waiting job starts, as far as that is known."""
    basis: Basis = plain("Basis", Basis.UNSPECIFIED)
    at_unix_ms: int = plain("long")  # it is expected to start then; 0: no time can be given
    latest_unix_ms: int = plain("long")  # no later than that unless a machine is lost, or see on_loan; 0: not known
    p90_unix_ms: int = plain("long")  # by then nine of ten jobs with a first estimate like this had started; 0: there were too few
    reason: str = plain("str")  # why there is no time, or no latest one
    reserved_nodes: List[str] = many("str")  # the machines on which room is kept for it, each once
    reserved_until_unix_ms: int = plain("long")  # 0: until it starts, or, learned, as things stand
    ahead: int = plain("int")  # jobs that have their turn before it; 0 for a job that has a place kept
    ahead_gpu_seconds: int = plain("long")  # the work that those are expected to do; 0: not known
    ahead_ms: int = plain("long")  # how long that takes at the pace of the last day; 0: not known
    without_history: bool = plain("bool")  # of BASIS_LEARNED: nothing has been learned yet, and each job is taken to run for an hour
    on_loan: bool = plain("bool")  # its queue borrows for it, and there is no latest time either if that is taken back


@dataclass
class QueueSpec(Message):
    """QueueSpec describes one queue."""
    name: str = plain("str")
    parent: str = plain("str")  # empty: it stands at the top
    quota: List[Amount] = many("Amount")  # assured, with all below it
    limit: List[Amount] = many("Amount")  # never more, with all below it
    weight: int = plain("long")  # 0: the parent's
    order: QueueOrder = plain("QueueOrder", QueueOrder.UNSPECIFIED)
    default_time_limit_ms: Optional[int] = one("long")  # the time limit of jobs that name none
    max_time_limit_ms: Optional[int] = one("long")
    selector: List[Label] = many("Label")  # labels that machines must have
    default_priority: Optional[int] = one("int")
    max_priority: Optional[int] = one("int")
    owner_amounts: List[Amount] = many("Amount")  # of one owner in it and below
    owner_nodes: Optional[int] = one("long")  # each counted once
    owner_running: Optional[int] = one("long")  # jobs
    owner_waiting: Optional[int] = one("long")  # jobs
    by_priority: Optional[bool] = one("bool")  # what may be stopped for its jobs
    reclaim: Optional[bool] = one("bool")
    shortest: Optional[bool] = one("bool")
    min_runtime_ms: Optional[int] = one("long")  # of its own jobs, before they may be stopped
    owners: List[str] = many("str")  # who may bring jobs: names of owners, and groups as "group:NAME"; none: everybody


@dataclass
class QueueUsage(Message):
    """QueueUsage is what the jobs of a queue, and of the queues below it, use and wait for. Each element of an array that has become a job counts as one, and the array itself as none."""
    queue: str = plain("str")  # empty: of jobs that name none, if there is no default
    running: int = plain("long")  # jobs whose nodes are being reserved, or that run
    waiting: int = plain("long")
    held: int = plain("long")
    in_use: Optional[Resources] = one("Resources")  # of the running jobs
    wanted: Optional[Resources] = one("Resources")  # of the waiting jobs; held jobs want nothing
    oldest_unix_ms: int = plain("long")  # when the waiting job that waits longest was submitted; 0: none waits


@dataclass
class Queues(Message):
    """Queues is the whole description. It is replaced as one, so that a tree is never half an earlier one."""
    default: str = plain("str")  # of jobs that name none; empty: such jobs are refused
    queues: List[QueueSpec] = many("QueueSpec")


@dataclass
class ReadLogs(Message):
    """ReadLogs asks for what a job's tasks wrote."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")  # an id or a unique prefix
    ranks: List[int] = many("int")  # empty: all
    follow: bool = plain("bool")  # until the job is over, through later attempts too
    previous: bool = plain("bool")  # of the attempt before the latest
    tail_bytes: int = plain("long")  # of each member; 0: from the beginning
    attempt: Optional[Token] = one("Token")  # to go on where a reader broke off: the attempt that it read
    from_: List[LogPosition] = many("LogPosition", name="from")  # and how far; nothing has come of a stream that is not listed
    tail_lines: int = plain("int")  # of each member's streams; 0: from the beginning, or as tail_bytes says


@dataclass
class ReadPast(Message):
    """ReadPast asks how the cluster was from one moment to another, or for its sums in that time."""
    principal: Optional[Principal] = one("Principal")
    at_unix_ms: int = plain("long")
    until_unix_ms: int = plain("long")
    step_ms: int = plain("long")  # set: the sums, each the average of so long


@dataclass
class ReadScript(Message):
    """ReadScript asks for a script's text. Machines ask too, once each."""
    principal: Optional[Principal] = one("Principal")
    digest: str = plain("str")


@dataclass
class ReadSecrets(Message):
    """ReadSecrets asks for the secrets of an attempt's job, with their values. Only a machine that has tasks of the attempt is answered, and only until that has ended."""
    job: str = plain("str")  # its id
    attempt: Optional[Token] = one("Token")


@dataclass
class Rendezvous(Message):
    """Rendezvous tells every member where rank 0 listens and who the others are."""
    address: str = plain("str")
    port: int = plain("int")
    peers: List[Peer] = many("Peer")  # in rank order
    roster: bytes = plain("bytes")  # the peers, packed (roster.go), in place of peers: only on a machine, never on the leader's disk


@dataclass
class Requeue(Message):
    """client → Scheduler → Job: the running attempt is ended, and the job waits in its old place again, as if it had not run. Acknowledged once the attempt's end is on disk."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    reason: str = plain("str")
    attempt: int = plain("int")  # the attempt that is meant, so that a repeated request ends only one; 0: the present one
    hold: bool = plain("bool")  # the job is also held until it is released


@dataclass
class RequeueReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    attempt: int = plain("int")  # the attempt that is being stopped; 0: there was none to stop


@dataclass
class Resources(Message):
    """Resources is an amount. A GPU amount is in thousandths of a device."""
    milli_cpu: int = plain("long")
    memory_bytes: int = plain("long")
    milli_gpu: int = plain("long")


@dataclass
class RestartSpec(Message):
    limit: int = plain("int")  # failures of the tasks; failures of machines have a limit of their own
    backoff_ms: int = plain("long")
    never: bool = plain("bool")  # a task of the job never runs twice: an attempt that may have run ends the job, whatever ended it


@dataclass
class RevokePass(Message):
    """RevokePass has a token refused from now on. One that is not there is refused already."""
    id: str = plain("str")  # or the beginning of one


@dataclass
class RevokePassReply(Message):
    id: str = plain("str")
    role: str = plain("str")
    name: str = plain("str")


@dataclass
class Right(Message):
    """Right is what a role may do."""
    name: str = plain("str")
    text: str = plain("str")  # in words
    own: bool = plain("bool")  # only for the client's own jobs
    of_job: bool = plain("bool")  # it is about one job


@dataclass
class Script(Message):
    """Script is a file that came with the job: each task runs its own copy of it."""
    name: str = plain("str")  # of the file
    digest: str = plain("str")  # of its text, under which the leader's store keeps it
    size_bytes: int = plain("long")  # of its text
    args: List[str] = many("str")
    text: bytes = plain("bytes")  # only between a client and a gateway: never in a record, nor on the way to a machine


@dataclass
class ScriptText(Message):
    text: bytes = plain("bytes")


@dataclass
class Secret(Message):
    """Secret is a value that the tasks of a job are given, and that nobody else sees."""
    name: str = plain("str")
    env: bool = plain("bool")  # it is the variable of that name; else the file of that name in /run/secrets
    value: bytes = plain("bytes")  # only on the way from a client to a gateway, and from there to a machine: never in a spec that is kept


@dataclass
class Secrets(Message):
    """Secrets are all of a job, with their values: what a gateway seals, and what a machine is answered."""
    secrets: List[Secret] = many("Secret")


@dataclass
class SliceReport(Message):
    """SliceReport is one slice as the machine's ledger has it."""
    token: Optional[Token] = one("Token")
    job: str = plain("str")
    state: SliceState = plain("SliceState", SliceState.UNSPECIFIED)
    grants: List[Grant] = many("Grant")
    exits: List[Exit] = many("Exit")
    rendezvous_port: int = plain("int")
    expires_in_ms: int = plain("long")  # of a reservation
    runtime_ms: int = plain("long")  # since its last member began, which may be over by now, by the machine's own steady clock; 0: not known, or one has not begun
    exit_ages_ms: List[int] = many("long")  # as in Exited
    held_ms: int = plain("long")  # since it was reserved, by the machine's own steady clock; 0: an earlier version wrote this
    vacated: bool = plain("bool")  # what it held is among what is free already, though its end is not on disk yet


@dataclass
class StopSpec(Message):
    signal: int = plain("int")  # 0: SIGTERM
    grace_ms: int = plain("long")  # 0: the default


@dataclass
class Submit(Message):
    """client → Scheduler. Idempotent by (principal, request id). Acknowledged once on disk."""
    principal: Optional[Principal] = one("Principal")
    request_id: str = plain("str")
    spec: Optional[JobSpec] = one("JobSpec")
    allow_infeasible: bool = plain("bool")
    sealed: bytes = plain("bytes")  # the spec's secrets with their values, sealed by the gateway: what a client writes here is lost
    exempt: bool = plain("bool")  # an admin asks, whom no limit of one owner holds; the gateway says so: what a client writes is lost
    groups: List[str] = many("str")  # of who asks, as the issuer of their token says; written by the gateway, as exempt


@dataclass
class SubmitReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")


@dataclass
class Token(Message):
    """Token names one attempt: ordered, never reused, not even by a next leader."""
    epoch: int = plain("long")
    counter: int = plain("long")


@dataclass
class Told(Message):
    """Told is the first time that a waiting job was promised. The attempt has the time of its COMMIT, so the two together show how right the promise was."""
    estimated_unix_ms: int = plain("long")  # for people, as is all that is counted from it
    expected_ms: int = plain("long")  # from then on, until it was expected to start
    bound_ms: int = plain("long")  # likewise until it was to start at the latest; 0: no such time could be given


@dataclass
class TopologySpec(Message):
    required: str = plain("str")  # a level of the fabric, or empty
    preferred: str = plain("str")
    patience_ms: int = plain("long")  # how long to wait for the preferred level


@dataclass
class Update(Message):
    """client → Scheduler → Job: changes what a live job asks for. Acknowledged once on disk; a repetition changes nothing."""
    principal: Optional[Principal] = one("Principal")
    job: str = plain("str")
    set_priority: bool = plain("bool")
    priority: int = plain("int")  # its place in the queue from now on
    set_time_limit: bool = plain("bool")
    time_limit_ms: int = plain("long")  # also of the present run, from its start; 0: none
    reason: str = plain("str")
    set_begin: bool = plain("bool")
    begin_unix_ms: int = plain("long")  # of a waiting job: not planned before then; 0: at once
    give_to: str = plain("str")  # of a job of anonymous: whose it is from now on; empty: as it is
    set_array_max_running: bool = plain("bool")
    array_max_running: int = plain("int")  # of an array: so many of its elements run at once at most; 0: any number
    exempt: bool = plain("bool")  # an admin asks; written by the gateway, as in a Submit
    groups: List[str] = many("str")  # as of a Submit


@dataclass
class UpdateReply(Message):
    outcome: Optional[Outcome] = one("Outcome")
    job: str = plain("str")
    priority: int = plain("int")  # as they are on disk now
    time_limit_ms: int = plain("long")
    time_is_up: bool = plain("bool")  # the run has gone on for longer than that: it is ended
    begin_unix_ms: int = plain("long")
    given_to: str = plain("str")
    array_max_running: int = plain("int")


@dataclass
class Victim(Message):
    """Victim is an attempt that is stopped for a job."""
    job: str = plain("str")
    token: Optional[Token] = one("Token")
    rule: PreemptionRule = plain("PreemptionRule", PreemptionRule.UNSPECIFIED)
    lost_milli_gpu_seconds: int = plain("long")  # work, as it was when that was decided


@dataclass
class WarnSpec(Message):
    """WarnSpec is a signal ahead of an end that is known before: by the time limit, a drain with a deadline, a preemption."""
    signal: int = plain("int")
    ahead_ms: int = plain("long")


@dataclass
class Warning(Message):
    """Warning is what the tasks of an attempt were told of its end."""
    cause: Cause = plain("Cause", Cause.UNSPECIFIED)
    at_unix_ms: int = plain("long")  # when all of them had been
    ends_unix_ms: int = plain("long")


@dataclass
class Watch(Message):
    """client → Mirror: send changes until Unwatch. Answered by Events."""
    principal: Optional[Principal] = one("Principal")
    jobs: bool = plain("bool")
    nodes: bool = plain("bool")
    ids: List[str] = many("str")  # only these jobs and machines; empty: all
    owner: str = plain("str")  # of jobs
    queue: str = plain("str")
    labels: List[Label] = many("Label")
    present: bool = plain("bool")  # first the present state, as Events, then one that is synced
    after: int = plain("long")  # first the changes after this one, as far as they are still known
    reasons: bool = plain("bool")  # of jobs: also send changes of a group's reason; if very many change at once, only some of them
    usage: bool = plain("bool")  # of machines: also send each whose books have changed. That is no change in words, so such an event has none, and seq is that of the last change
    array: str = plain("str")  # of jobs: only this array and its elements that are or were jobs; empty: all


@dataclass
class WhoAmI(Message):
    """WhoAmI asks as whom the scheduler sees the client."""


@dataclass
class WhoAmIReply(Message):
    cluster: str = plain("str")  # empty: it speaks no TLS, takes everybody for anonymous, and refuses nothing
    role: str = plain("str")
    name: str = plain("str")  # the owner of what the client submits
    until_unix_ms: int = plain("long")  # of the client's certificate or token
    rights: List[Right] = many("Right")  # all that the role may do
    pass_: str = plain("str", name="pass")  # the id of the client's token; empty: it has a certificate
    groups: List[str] = many("str")  # of the client, as the issuer of its token says; what `owners` of queues name


class Calls:
    """Each call of the API as it is; Client has what is made of them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def submit(self, request: Submit) -> SubmitReply:
        return self._transport.call("Submit", request, SubmitReply)

    def submit_script(self, request: Submit) -> SubmitReply:
        """SubmitScript is Submit of a job with the text of its script, which stays behind in the store. A scheduler of an earlier version, which would lose the script, does not have it."""
        return self._transport.call("SubmitScript", request, SubmitReply)

    def read_script(self, request: ReadScript) -> ScriptText:
        return self._transport.call("ReadScript", request, ScriptText)

    def submit_secret(self, request: Submit) -> SubmitReply:
        """SubmitSecret is Submit of a job with the values of its secrets, and the text of its script if it has one. A scheduler of an earlier version, which would keep the values as it does all fields that it does not know, does not have it."""
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
        """ReadPast tells how the cluster was, as far as the scheduler that leads has kept that."""
        return self._transport.stream("ReadPast", request, PastPart)

    def exec(self, request: Iterable[ExecIn]) -> Answers[ExecOut]:
        """Exec runs an exec session in a task, and carries what it reads and writes. The first ExecIn says what is to be run, the last ExecOut how it ended."""
        return self._transport.converse("Exec", request, ExecOut)

    def carry(self, request: Iterable[ExecOut]) -> Answers[ExecIn]:
        """Carry is a machine's end of an Exec that it was told of: its first ExecOut names the session."""
        return self._transport.converse("Carry", request, ExecIn)

    def reach(self, request: Iterable[ExecIn]) -> Answers[ExecOut]:
        """Reach is Exec as a machine asks for it, for one of its tasks: in another task of the same attempt."""
        return self._transport.converse("Reach", request, ExecOut)

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
