package telemetry

import "github.com/effectively-once/once/internal/record"

// Namespace is the CloudWatch namespace of the metrics, where [EnvNamespace] names no other.
const Namespace = "Once"

// EnvNamespace is the variable that names another namespace: deployments that share an account and a region share their metrics without it.
const EnvNamespace = "ONCE_METRICS_NAMESPACE"

// Dimension is the one dimension of the metrics. Each is reported without it too, for the whole system.
const Dimension = "stream"

// The metrics. Counts are sums of what happened, in the unit Count; ages are maxima, in Seconds.
const (
	MetricProcessed    = "Processed"
	MetricDuplicate    = "Duplicate"
	MetricHeld         = "Held"
	MetricRejected     = "Rejected"
	MetricKeyReuse     = "KeyReuse" // rejected, because an identity came again with other content
	MetricUnknown      = "Unknown"  // rejected, because nobody issued the identity, or it is forgotten
	MetricRetried      = "Retried"
	MetricConflict     = "Conflict"
	MetricPublished    = "Published"
	MetricSkipped      = "Skipped"
	MetricDeadLettered = "DeadLettered"
	MetricGapAge       = "GapAge"
	MetricPendingAge   = "PendingAge"
)

// The units, in CloudWatch's words.
const (
	UnitCount   = "Count"
	UnitSeconds = "Seconds"
)

// Unit is the unit of a metric.
func Unit(metric string) string {
	if metric == MetricGapAge || metric == MetricPendingAge {
		return UnitSeconds
	}
	return UnitCount
}

// Metrics lists all of them.
func Metrics() []string {
	return []string{
		MetricProcessed, MetricDuplicate, MetricHeld, MetricRejected, MetricKeyReuse, MetricUnknown, MetricRetried, MetricConflict, MetricPublished,
		MetricSkipped, MetricDeadLettered, MetricGapAge, MetricPendingAge,
	}
}

// eventDeadLettered is seen at the queues: the engine does not know what its queues do with what it refuses.
const eventDeadLettered record.EventName = "dead-lettered"

// value is what one event adds to a metric: to the sum of a count, or as a candidate for the maximum of an age, in seconds to the millisecond.
func value(e *record.Event) float64 {
	if e.Name == record.EventGap || e.Name == record.EventPending {
		return max(0, float64(e.Age.Milliseconds())/1000) // clocks differ
	}
	return float64(e.Count)
}

// metricsOf lists the metrics that an event counts in. An event that is not known counts nowhere.
func metricsOf(e *record.Event) []string {
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
	case eventDeadLettered:
		return []string{MetricDeadLettered}
	}
	return nil
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
