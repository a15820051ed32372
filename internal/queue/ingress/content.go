package ingress

import (
	"crypto/sha256"
	"encoding/json"

	"github.com/effectively-once/once/internal/config"
)

// content returns the hash of a body without the members that the service writes anew for each
// copy: if a producer puts an event twice, the two have different ids and times. It returns zero if
// there are no such members, so that the whole body is compared.
func (s *Source) content(body []byte) (hash [sha256.Size]byte) {
	if s.kind != config.SourceEventBridge && s.kind != config.SourcePipes {
		return hash
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return hash
	}
	names := rewritten(s.kind, members)
	if len(names) == 0 {
		return hash
	}
	for _, name := range names {
		delete(members, name)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return hash
	}
	return sha256.Sum256(text)
}

// rewritten returns the members of an event, or of a message that a pipe has read from SQS, that
// differ between its copies. It returns none for bodies of another form, such as that of an input
// transformer.
func rewritten(kind config.SourceKind, members map[string]json.RawMessage) []string {
	_, event := members["detail-type"]
	switch {
	case kind == config.SourceEventBridge && event:
		return []string{"id", "time", "replay-name"}
	case kind == config.SourcePipes && string(members["eventSource"]) == `"aws:sqs"`:
		return []string{"messageId", "receiptHandle", "attributes"}
	default:
		return nil
	}
}
