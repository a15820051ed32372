package ingress

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// testEvent is the event that S3 sends when a notification is configured.
const testEvent = "s3:TestEvent"

// A notification is what S3 sends.
type notification struct {
	Event   string
	Records []json.RawMessage
}

// An object is the part of a record that identifies its event. The key is encoded as in a URL.
type object struct {
	EventName        string `json:"eventName"`
	EventTime        string `json:"eventTime"`
	ResponseElements struct {
		RequestID string `json:"x-amz-request-id"`
	} `json:"responseElements"`
	S3 struct {
		Bucket struct{ Name string }
		Object struct{ Key, VersionID, Sequencer string }
	}
}

// records returns a delivery for each record of a notification. Each has the form of a notification
// with that record alone, without white space: S3 may repeat an event, and nothing says that it
// repeats it beside the same others.
func (s *Source) records(d *queue.Delivery) ([]*queue.Delivery, error) {
	var n notification
	if err := json.Unmarshal([]byte(d.Body), &n); err != nil {
		return nil, invalid("body", "must be an event notification of S3: it is not JSON of that form")
	}
	if len(n.Records) == 0 {
		if n.Event == testEvent {
			return nil, nil
		}
		return nil, invalid("body", "must be an event notification of S3: $.Records is missing or empty")
	}
	out := make([]*queue.Delivery, len(n.Records))
	for i, raw := range n.Records {
		var o object
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, invalid("body", fmt.Sprintf("must be an event notification of S3: $.Records[%d] has another form", i))
		}
		id, err := o.identity(i)
		if err != nil {
			return nil, err
		}
		var body bytes.Buffer
		body.WriteString(`{"Records":[`)
		if err := json.Compact(&body, raw); err != nil {
			return nil, invalid("body", fmt.Sprintf("must be an event notification of S3: $.Records[%d] is not JSON", i))
		}
		body.WriteString("]}")
		part := plain(d)
		part.Body, part.Attributes[wire.AttrID] = body.String(), id
		if part.Attributes[wire.AttrGroup] == "" && s.group.IsZero() {
			part.Attributes[wire.AttrGroup] = record.Fit(o.S3.Bucket.Name + "/" + o.S3.Object.Key)
		}
		out[i] = part
	}
	return out, nil
}

// identity returns the identity of the event of record i. Events that have no sequencer, which are
// neither puts nor deletes, have the time and the request in its place.
func (o *object) identity(i int) (string, error) {
	at := cmp.Or(o.S3.Object.Sequencer, strings.Trim(o.EventTime+" "+o.ResponseElements.RequestID, " "))
	for _, need := range []struct{ path, value string }{
		{"s3.bucket.name", o.S3.Bucket.Name}, {"s3.object.key", o.S3.Object.Key}, {"s3.object.sequencer", at}, {"eventName", o.EventName},
	} {
		if need.value == "" {
			return "", invalid("id", fmt.Sprintf("of an event of S3: $.Records[%d].%s is missing", i, need.path))
		}
	}
	return record.Fit(strings.Join([]string{o.S3.Bucket.Name, o.S3.Object.Key, cmp.Or(o.S3.Object.VersionID, "-"), at, o.EventName}, "/")), nil
}
