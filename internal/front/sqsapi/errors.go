package sqsapi

import "net/http"

// A shape is an error of the API: its name in the JSON protocol, and its code in the older query
// protocol, by which SDKs still know it.
type shape struct{ name, code string }

var (
	shapeNoQueue     = shape{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}
	shapeUnsupported = shape{"UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation"}
	shapeContents    = shape{"InvalidMessageContents", "InvalidMessageContents"}
	shapeParameter   = shape{"InvalidParameterValue", "InvalidParameterValue"}
	shapeMissing     = shape{"MissingParameter", "MissingParameter"}
	shapeAttribute   = shape{"InvalidAttributeName", "InvalidAttributeName"}
	shapeEmptyBatch  = shape{"EmptyBatchRequest", "AWS.SimpleQueueService.EmptyBatchRequest"}
	shapeTooMany     = shape{"TooManyEntriesInBatchRequest", "AWS.SimpleQueueService.TooManyEntriesInBatchRequest"}
	shapeNotDistinct = shape{"BatchEntryIdsNotDistinct", "AWS.SimpleQueueService.BatchEntryIdsNotDistinct"}
	shapeEntryID     = shape{"InvalidBatchEntryId", "AWS.SimpleQueueService.InvalidBatchEntryId"}
	shapeTooLong     = shape{"BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong"}
)

// An apiError is an error in the form of the API.
type apiError struct {
	shape
	message string
	status  int
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// fault returns whose fault the error is, in the protocol's words.
func (e *apiError) fault() string {
	if e.status < http.StatusInternalServerError {
		return "Sender"
	}
	return "Receiver"
}

var errInternal = &apiError{shape{"InternalError", "InternalError"}, "The message may or may not have been sent. Send it again under the same identity.", http.StatusInternalServerError}

func failure(s shape, message string) *apiError {
	return &apiError{s, message, http.StatusBadRequest}
}

type errorBody struct {
	Type    string `json:"__type"`
	Message string `json:"message"`
}
