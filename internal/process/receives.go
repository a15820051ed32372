package process

import (
	"strconv"

	"github.com/aws/aws-lambda-go/events"
)

// receives is how often the queue has delivered the message, this time included.
func receives(m *events.SQSMessage) int {
	n, err := strconv.Atoi(m.Attributes["ApproximateReceiveCount"])
	if err != nil {
		return 1
	}
	return n
}
