"""Why a batch system ended a job, or is about to. Pure."""

from enum import Enum

#: In the ids of a next run of which nobody knows whether it comes.
TOLD_LATER = "is_told_later"


class Cause(Enum):
    """Why it told a job to end."""

    #: Its time limit is over.
    TIME_LIMIT = "its time limit was reached"
    #: A more important job needs its place.
    PREEMPTED = "a more important job took its place"
    #: Somebody, or the batch system itself, put it back into the queue.
    REQUEUED = "it was put back into the queue"
    #: Its batch process died or left; what is left of it is ended.
    DIED = "its batch process ended"
    #: Somebody cancelled it.
    CANCELLED = "it was cancelled"
    #: It cannot be told.
    UNKNOWN = "it was ended, and Slurm does not say why"
    #: It can be told only when the job is over.
    TOLD_LATER = "it is being ended; LSF says why when it is over"
