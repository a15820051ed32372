package telemetry

import "github.com/effectively-once/once/internal/record"

// Namespace is the CloudWatch namespace of the metrics, unless [EnvNamespace] names another.
const Namespace = "Once"

// EnvNamespace is the variable that names another namespace. Without it, deployments in one account
// and region share their metrics.
const EnvNamespace = "ONCE_METRICS_NAMESPACE"

// Dimension is the dimension of all metrics but [MetricDenied]. Each metric is reported without it
// too, for the whole system.
const Dimension = "stream"

// dimensionReason is the dimension of MetricDenied: its requests often name no stream.
const dimensionReason = "reason"

// DimensionOf returns the dimension of a metric.
func DimensionOf(metric string) string {
	if metric == MetricDenied {
		return dimensionReason
	}
	return Dimension
}

// DimensionValue returns the value of the dimension of a metric for an event.
func DimensionValue(e *record.Event, metric string) string {
	if metric == MetricDenied {
		return string(e.Reason)
	}
	return e.Stream
}

// The metrics. Counts are sums, in the unit Count; ages are maxima, in Seconds.
const (
	MetricProcessed    = "Processed"
	MetricDuplicate    = "Duplicate"
	MetricHeld         = "Held"
	MetricRejected     = "Rejected"
	MetricKeyReuse     = "KeyReuse" // rejected, because the identity was used with other content
	MetricUnknown      = "Unknown"  // rejected, because no token was issued, or it is forgotten
	MetricRetried      = "Retried"
	MetricConflict     = "Conflict"
	MetricPublished    = "Published"
	MetricSkipped      = "Skipped"
	MetricDeadLettered = "DeadLettered"
	MetricDropped      = "DeadLetterDropped" // by its age, or by the bound on their number; on one machine
	MetricGapAge       = "GapAge"
	MetricPendingAge   = "PendingAge"

	MetricHandlerFailed = "HandlerFailed"
	MetricAccepted      = "Accepted"
	MetricReplayed      = "Replayed"
	MetricRefused       = "Refused"
	MetricFailed        = "Failed"
	MetricAcceptTime    = "AcceptTime"
	MetricDenied        = "Denied" // by reason; only a server denies requests

	MetricSessionStopped = "SessionStopped"
	MetricTakeover       = "Takeover"
	MetricEndWaits       = "EndWaits"
	MetricUnreadLate     = "UnreadLate"
)

// The units, as CloudWatch names them.
const (
	UnitCount   = "Count"
	UnitSeconds = "Seconds"
)

// Unit returns the unit of a metric.
func Unit(metric string) string {
	switch metric {
	case MetricGapAge, MetricPendingAge, MetricAcceptTime:
		return UnitSeconds
	default:
		return UnitCount
	}
}

// Metrics returns all metrics.
func Metrics() []string {
	return []string{
		MetricProcessed, MetricDuplicate, MetricHeld, MetricRejected, MetricKeyReuse, MetricUnknown, MetricRetried, MetricConflict, MetricPublished,
		MetricSkipped, MetricDeadLettered, MetricDropped, MetricGapAge, MetricPendingAge, MetricHandlerFailed, MetricAccepted, MetricReplayed, MetricRefused, MetricFailed, MetricAcceptTime, MetricDenied,
		MetricSessionStopped, MetricTakeover, MetricEndWaits, MetricUnreadLate,
	}
}

// eventDeadLettered is counted at the queues, because the engine does not know what its queues do
// with refused messages.
const eventDeadLettered record.EventName = "dead-lettered"

// Value returns an event's contribution to a metric: to the sum of a count, or to the maximum of an
// age, in seconds with milliseconds.
func Value(e *record.Event, metric string) float64 {
	if Unit(metric) == UnitSeconds {
		return max(0, float64(e.Age.Milliseconds())/1000) // clocks differ
	}
	return float64(e.Count)
}

// MetricsOf returns the metrics in which an event counts. An unknown event counts in none.
func MetricsOf(e *record.Event) []string {
	switch e.Name {
	case record.EventProcessed:
		return []string{MetricProcessed}
	case record.EventDuplicate:
		return []string{MetricDuplicate}
	case record.EventHeld:
		return []string{MetricHeld}
	case record.EventRejected:
		return rejected(e.Reason)
	case record.EventRetried:
		return []string{MetricRetried}
	case record.EventConflict:
		return []string{MetricConflict}
	case record.EventPublished:
		return []string{MetricPublished}
	case record.EventSkipped:
		return []string{MetricSkipped}
	case record.EventGap:
		return []string{MetricGapAge}
	case record.EventPending:
		return []string{MetricPendingAge}
	case record.EventDropped:
		return []string{MetricDropped}
	case eventDeadLettered:
		return []string{MetricDeadLettered}
	case record.EventHandlerFailed:
		return []string{MetricHandlerFailed}
	default:
		return append(ofRequests(e.Name), ofSessions(e.Name)...)
	}
}

// ofRequests returns the metrics in which an event of the HTTP API counts.
func ofRequests(e record.EventName) []string {
	switch e {
	case record.EventAccepted:
		return []string{MetricAccepted, MetricAcceptTime}
	case record.EventReplayed:
		return []string{MetricReplayed}
	case record.EventRefused:
		return []string{MetricRefused}
	case record.EventFailed:
		return []string{MetricFailed}
	case record.EventDenied:
		return []string{MetricDenied}
	default:
		return nil
	}
}

// ofSessions returns the metrics in which an event of a session counts.
func ofSessions(e record.EventName) []string {
	switch e {
	case record.EventStopped:
		return []string{MetricSessionStopped}
	case record.EventTakeover:
		return []string{MetricTakeover}
	case record.EventEndWaits:
		return []string{MetricEndWaits}
	case record.EventUnreadLate:
		return []string{MetricUnreadLate}
	default:
		return nil
	}
}

func rejected(reason record.Reason) []string {
	switch reason {
	case record.ReasonKeyReuse:
		return []string{MetricRejected, MetricKeyReuse}
	case record.ReasonUnknown:
		return []string{MetricRejected, MetricUnknown}
	default:
		return []string{MetricRejected}
	}
}
