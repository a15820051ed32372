package function

import (
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/config"
	eventdest "github.com/effectively-once/once/internal/destination/eventbridge"
	snsdest "github.com/effectively-once/once/internal/destination/sns"
	sqsdest "github.com/effectively-once/once/internal/destination/sqs"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// errDestination reports that the functions can't serve a kind of destination.
var errDestination = errors.New("the functions have no such destination")

// destination opens a destination, by shared if its kind is the same everywhere.
func (c Clients) destination(_ string, d config.Destination, shared pipeline.Open) (record.Sender, error) {
	switch d.Kind() {
	case config.KindSQS:
		return sqsdest.New(c.SQS, d.Target())
	case config.KindSNS:
		return snsdest.New(c.SNS, c.STS, d.Target())
	case config.KindEventBridge:
		return eventdest.New(c.EventBridge, d.Target())
	case config.KindWebhook, config.KindStream, config.KindOnce:
		return shared()
	default:
		return nil, fmt.Errorf("%w: %s %s works only in the embedded system", errDestination, d.Kind(), d.Target())
	}
}
