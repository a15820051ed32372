package wire

import (
	"crypto/md5" //nolint:gosec // the checksum that SQS prescribes
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/queue"
)

// Event gives deliveries the form in which Lambda hands them to a function, with everything that SQS adds. ApproximateFirstReceiveTimestamp is the time of
// sending, the only bound that a delivery knows.
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
	sent := strconv.FormatInt(d.Sent.UnixMilli(), 10)
	system := map[string]string{
		"ApproximateReceiveCount":          strconv.Itoa(d.Receives),
		"SentTimestamp":                    sent,
		"ApproximateFirstReceiveTimestamp": sent,
		"SenderId":                         d.Sender,
	}
	for name, value := range map[string]string{
		"MessageGroupId": d.Group, "MessageDeduplicationId": d.DedupID, "SequenceNumber": d.SequenceNumber,
	} {
		// A standard queue has fair queueing by group, but neither of the others.
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
	return events.SQSMessage{
		MessageId: d.ID, ReceiptHandle: d.Receipt, Body: d.Body, Md5OfBody: MD5OfBody(d.Body), Md5OfMessageAttributes: MD5OfAttributes(attributes),
		Attributes: system, MessageAttributes: attributes,
	}
}

// MD5OfBody is the checksum by which senders and receivers verify a body.
func MD5OfBody(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // prescribed
	return hex.EncodeToString(sum[:])
}

// MD5OfAttributes is the checksum by which senders and receivers verify message attributes; empty where there are none.
func MD5OfAttributes(attributes map[string]events.SQSMessageAttribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var b []byte
	put := func(value string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value))) //nolint:gosec // at most 1 MiB
		b = append(b, value...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		put(name)
		put(a.DataType)
		if a.StringValue != nil {
			b = append(b, 1)
			put(*a.StringValue)
			continue
		}
		b = append(b, 2)
		put(string(a.BinaryValue))
	}
	sum := md5.Sum(b) //nolint:gosec // prescribed
	return hex.EncodeToString(sum[:])
}
