package ingress

import (
	"encoding/json"
	"fmt"

	"github.com/effectively-once/once/internal/queue"
)

// An envelope is the body of a message from SNS without raw message delivery.
type envelope struct {
	Type              string
	MessageID         string `json:"MessageId"`
	TopicArn          string
	Subject           string
	Message           *string
	MessageAttributes map[string]struct{ Type, Value string }
}

// headerSubject carries the subject of a notification.
const headerSubject = "subject"

// opened replaces the envelope of a delivery by its content, so that a message is the same whether
// it is delivered raw or not, and returns its MessageId. A raw message stays as it is, and has
// none.
func opened(d *queue.Delivery) (id string, err error) {
	var e envelope
	if err := json.Unmarshal([]byte(d.Body), &e); err != nil || e.TopicArn == "" || e.MessageID == "" {
		return "", nil //nolint:nilerr // raw
	}
	switch {
	case e.Type == "SubscriptionConfirmation" || e.Type == "UnsubscribeConfirmation":
		return "", invalid("body", fmt.Sprintf("is a %s of the topic %s, which is no message: let the owner of the queue subscribe it, or confirm it by its SubscribeURL", e.Type, e.TopicArn))
	case e.Type != "Notification" || e.Message == nil:
		return "", nil
	}
	d.Body = *e.Message
	for name, a := range e.MessageAttributes {
		if a.Type == "Binary" {
			d.Binary = append(d.Binary, name)
			continue
		}
		d.Attributes[name] = a.Value
	}
	if _, taken := d.Attributes[headerSubject]; e.Subject != "" && !taken {
		d.Attributes[headerSubject] = e.Subject
	}
	return e.MessageID, nil
}
