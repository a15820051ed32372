package dedup

import (
	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// The words of the protocol under the engine's name, for the tests of the engine.

type (
	State  = admission.State
	Status = admission.Status
)

const (
	IssuedRetention = admission.IssuedRetention
	StatusAccepted  = admission.StatusAccepted
	StatusCommitted = admission.StatusCommitted
	StatusDeleted   = admission.StatusDeleted
	StatusDone      = admission.StatusDone
	StatusHeld      = admission.StatusHeld
	StatusRejected  = admission.StatusRejected
	StatusUnknown   = admission.StatusUnknown
)

type (
	Admission    = record.Admission
	Attempt      = record.Attempt
	Blob         = record.Blob
	Blobs        = record.Blobs
	Bounds       = record.Bounds
	Clear        = record.Clear
	Commit       = record.Commit
	Delivery     = record.Delivery
	Effect       = record.Effect
	Event        = record.Event
	EventName    = record.EventName
	Fingerprint  = record.Fingerprint
	Gap          = record.Gap
	GapPolicy    = record.GapPolicy
	Group        = record.Group
	GroupKey     = record.GroupKey
	Handler      = record.Handler
	HandlerError = record.HandlerError
	Held         = record.Held
	HeldKey      = record.HeldKey
	InvalidError = record.InvalidError
	Kind         = record.Kind
	Lister       = record.Lister
	Message      = record.Message
	Outcome      = record.Outcome
	Pending      = record.Pending
	Queues       = record.Queues
	Range        = record.Range
	Ranges       = record.Ranges
	Reason       = record.Reason
	Refused      = record.Refused
	RefusedError = record.RefusedError
	RejectError  = record.RejectError
	Reply        = record.Reply
	Sender       = record.Sender
	Sent         = record.Sent
	Source       = record.Source
	Store        = record.Store
	Stream       = record.Stream
	Token        = record.Token
	TokenKey     = record.TokenKey
	TokenState   = record.TokenState
)

const (
	Absent                = record.Absent
	ByKey                 = record.ByKey
	BySequence            = record.BySequence
	ByToken               = record.ByToken
	DefaultGroupRetention = record.DefaultGroupRetention
	DefaultRetention      = record.DefaultRetention
	Done                  = record.Done
	Duplicate             = record.Duplicate
	EventConflict         = record.EventConflict
	EventDuplicate        = record.EventDuplicate
	EventGap              = record.EventGap
	EventHeld             = record.EventHeld
	EventPending          = record.EventPending
	EventProcessed        = record.EventProcessed
	EventPublished        = record.EventPublished
	EventRejected         = record.EventRejected
	EventRetried          = record.EventRetried
	EventSkipped          = record.EventSkipped
	GapFail               = record.GapFail
	GapSkip               = record.GapSkip
	GapWait               = record.GapWait
	HeldBack              = record.HeldBack
	Issued                = record.Issued
	Leased                = record.Leased
	MaxBody               = record.MaxBody
	MaxCommitItems        = record.MaxCommitItems
	MaxHeaders            = record.MaxHeaders
	MaxName               = record.MaxName
	MaxStreamName         = record.MaxStreamName
	Processed             = record.Processed
	ReasonAttempts        = record.ReasonAttempts
	ReasonDeleted         = record.ReasonDeleted
	ReasonExpired         = record.ReasonExpired
	ReasonGap             = record.ReasonGap
	ReasonGone            = record.ReasonGone
	ReasonHandler         = record.ReasonHandler
	ReasonInvalid         = record.ReasonInvalid
	ReasonKeyReuse        = record.ReasonKeyReuse
	ReasonSkipped         = record.ReasonSkipped
	ReasonStaleEpoch      = record.ReasonStaleEpoch
	ReasonUnknown         = record.ReasonUnknown
	Rejected              = record.Rejected
	Retry                 = record.Retry
)

var (
	ErrConflict = record.ErrConflict
	ErrCorrupt  = record.ErrCorrupt
	ErrNoStream = record.ErrNoStream
	NewTokenKey = record.NewTokenKey
	TokenText   = record.TokenText
	ValidStream = record.ValidStream
)
