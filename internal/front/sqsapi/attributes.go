package sqsapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// validAttributes checks message attributes as SQS does.
func (e *entry) validAttributes() error {
	if len(e.MessageAttributes) > queue.MaxAttributes {
		return failure(shapeParameter, fmt.Sprintf("Number of message attributes [%d] exceeds the allowed maximum [%d].", len(e.MessageAttributes), queue.MaxAttributes))
	}
	for name, a := range e.MessageAttributes {
		if !queue.ValidAttributeName(name) {
			return failure(shapeParameter, "A message attribute name can only contain alphanumeric characters, dashes, underscores and periods, and can not start with AWS. or Amazon.")
		}
		if err := a.validate(name); err != nil {
			return err
		}
	}
	return nil
}

func (a attribute) validate(name string) error {
	kind, _, _ := strings.Cut(a.DataType, ".")
	switch {
	case kind != "String" && kind != "Number" && kind != "Binary":
		return failure(shapeParameter, "The message attribute '"+name+"' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.")
	case kind == "Binary" && (len(a.BinaryValue) == 0 || a.StringValue != nil), kind != "Binary" && (a.StringValue == nil || *a.StringValue == ""):
		return failure(shapeParameter, "The message attribute '"+name+"' must contain a non-empty message attribute value for message attribute type '"+kind+"'.")
	case kind != "Binary" && !queue.ValidText(*a.StringValue):
		return failure(shapeContents, "The message attribute '"+name+"' contains characters outside the allowed set.")
	}
	if kind == "Number" {
		if _, err := strconv.ParseFloat(*a.StringValue, 64); err != nil {
			return failure(shapeParameter, "Can't cast the value of message (user) attribute '"+name+"' to a number.")
		}
	}
	return nil
}

type attributesInput struct {
	QueueURL       string `json:"QueueUrl"`
	AttributeNames []string
}

type attributesOutput struct {
	Attributes map[string]string `json:",omitempty"`
}

// attributes answers GetQueueAttributes with the attributes that have a meaning here.
func (h *Handler) attributes(in *attributesInput) (any, error) {
	t, err := h.byURL(in.QueueURL)
	if err != nil {
		return nil, err
	}
	visible, inFlight, delayed := h.config.Counts(t.queue)
	all := map[string]string{
		"QueueArn":                              "arn:aws:sqs:us-east-1:" + account + ":" + t.name,
		"ApproximateNumberOfMessages":           strconv.Itoa(visible),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(inFlight),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(delayed),
		"DelaySeconds":                          "0",
		"MaximumMessageSize":                    strconv.Itoa(record.MaxBody),
	}
	if t.fifo() {
		all["FifoQueue"], all["ContentBasedDeduplication"] = "true", "false"
	}
	if slices.Contains(in.AttributeNames, "All") {
		return attributesOutput{all}, nil
	}
	out := map[string]string{}
	for _, name := range in.AttributeNames {
		if !slices.Contains(knownAttributes, name) {
			return nil, failure(shapeAttribute, fmt.Sprintf("Unknown Attribute %.64s.", name))
		}
		if value, ok := all[name]; ok {
			out[name] = value
		}
	}
	return attributesOutput{out}, nil
}

// knownAttributes are all attributes of SQS; if one has no meaning here, it is left out of the
// answer, as SQS leaves out an attribute that is not set.
var knownAttributes = []string{ //nolint:gochecknoglobals // a table
	"Policy", "VisibilityTimeout", "MaximumMessageSize", "MessageRetentionPeriod", "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible",
	"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn", "ApproximateNumberOfMessagesDelayed", "DelaySeconds", "ReceiveMessageWaitTimeSeconds",
	"RedrivePolicy", "FifoQueue", "ContentBasedDeduplication", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "DeduplicationScope", "FifoThroughputLimit",
	"RedriveAllowPolicy", "SqsManagedSseEnabled",
}
