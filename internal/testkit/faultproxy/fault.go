package faultproxy

import (
	"fmt"
	"hash/crc32"
	"net/http"
	"strconv"
)

// A Fault is the fate of one call.
type Fault uint8

// The faults. If a call was not applied, the client gets an error that says so, or an ambiguous
// one; if it was applied, the client never gets the result in time.
const (
	None Fault = iota
	// Refused: not applied, answered 500.
	Refused
	// Throttled: not applied, answered that the table's throughput is exceeded.
	Throttled
	// Limited: not applied, answered that the account's rate is exceeded.
	Limited
	// ResetBefore: not applied, the connection is reset.
	ResetBefore
	// ResetAfter: applied, the connection is reset.
	ResetAfter
	// Dropped: applied, the connection is closed without an answer.
	Dropped
	// Cut: applied, the connection is closed after half of the answer.
	Cut
	// Failed: applied, answered 500.
	Failed
	// Slow: applied, answered only after the client has timed out. See [Impatient].
	Slow
	// Late: applied only after the client has timed out and the next call of any client has been
	// answered. See [Impatient].
	Late

	faults
)

// String returns the fault's word.
func (f Fault) String() string {
	return [...]string{"none", "refused", "throttled", "limited", "reset before", "reset after", "dropped", "cut", "failed", "slow", "late"}[f]
}

// Faults returns all faults but None.
func Faults() []Fault {
	var out []Fault
	for f := None + 1; f < faults; f++ {
		out = append(out, f)
	}
	return out
}

// The service's names of its errors.
const (
	typeInternal   = "com.amazonaws.dynamodb.v20120810#InternalServerError"
	typeThroughput = "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"
	typeThrottling = "com.amazon.coral.availability#ThrottlingException"
)

// serviceError returns a response with an error of the service.
func serviceError(status int, kind, message string) *answer {
	body := fmt.Appendf(nil, `{"__type":%q,"message":%q}`, kind, message)
	return &answer{status: status, body: body, header: http.Header{
		"Content-Type": {"application/x-amz-json-1.0"}, "X-Amz-Crc32": {strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10)},
	}}
}

func internalError() *answer {
	return serviceError(http.StatusInternalServerError, typeInternal, "The request processing has failed because of an unknown error, exception or failure.")
}

// refusal returns the response to a call that is not applied, or nil if the fault has none.
func (f Fault) refusal() *answer {
	switch f {
	case Refused:
		return internalError()
	case Throttled:
		return serviceError(http.StatusBadRequest, typeThroughput, "The level of configured provisioned throughput for the table was exceeded.")
	case Limited:
		return serviceError(http.StatusBadRequest, typeThrottling, "Rate of requests exceeds the allowed throughput.")
	default:
		return nil
	}
}
