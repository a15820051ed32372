package host

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/queue"
)

// Event converts deliveries to the event with which Lambda invokes a function, including all
// attributes that SQS adds. ApproximateFirstReceiveTimestamp is the time of sending if the queue
// does not record the first delivery. Binary attributes have no values, and the event has no
// checksums.
func Event(queueARN string, deliveries []queue.Delivery) events.SQSEvent {
	var region string
	if parts := strings.SplitN(queueARN, ":", 6); len(parts) == 6 {
		region = parts[3]
	}
	records := make([]events.SQSMessage, len(deliveries))
	for i := range deliveries {
		records[i] = sqsMessage(&deliveries[i])
		records[i].EventSource, records[i].EventSourceARN, records[i].AWSRegion = "aws:sqs", queueARN, region
	}
	return events.SQSEvent{Records: records}
}

func sqsMessage(d *queue.Delivery) events.SQSMessage {
	millis := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	system := map[string]string{
		"ApproximateReceiveCount":          strconv.Itoa(d.Receives),
		"SentTimestamp":                    millis(d.Sent),
		"ApproximateFirstReceiveTimestamp": millis(cmp.Or(d.FirstReceived, d.Sent)),
		"SenderId":                         d.Sender,
	}
	for name, value := range map[string]string{
		"MessageGroupId": d.Group, "MessageDeduplicationId": d.DedupID, "SequenceNumber": d.SequenceNumber,
	} {
		// A message of a standard queue can have a group, for fair queueing, but no other FIFO
		// attribute.
		if value != "" && (name == "MessageGroupId" || d.SequenceNumber != "") {
			system[name] = value
		}
	}
	attributes := make(map[string]events.SQSMessageAttribute, len(d.Attributes))
	for name, value := range d.Attributes {
		attributes[name] = events.SQSMessageAttribute{
			StringValue: &value, DataType: "String", StringListValues: []string{}, BinaryListValues: [][]byte{},
		}
	}
	for _, name := range d.Binary {
		attributes[name] = events.SQSMessageAttribute{DataType: "Binary", StringListValues: []string{}, BinaryListValues: [][]byte{}}
	}
	return events.SQSMessage{
		MessageId: d.ID, ReceiptHandle: d.Receipt, Body: d.Body, Attributes: system, MessageAttributes: attributes,
	}
}
