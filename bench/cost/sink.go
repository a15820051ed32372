package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A sink accepts everything, and records the groups to publish.
type sink struct{ triggered []record.GroupKey }

var (
	_ record.Queues = (*sink)(nil)
	_ record.Sender = (*sink)(nil)
)

func (s *sink) Trigger(_ context.Context, groups []record.GroupKey, _ time.Duration) error {
	for _, g := range groups {
		if !slices.Contains(s.triggered, g) {
			s.triggered = append(s.triggered, g)
		}
	}
	return nil
}

func (s *sink) taken() []record.GroupKey {
	out := s.triggered
	s.triggered = nil
	return out
}

func (s *sink) Return(context.Context, []record.Message) error {
	return fmt.Errorf("a message came too early")
}

func (s *sink) DeadLetter(context.Context, []record.Refused) error {
	return fmt.Errorf("a message was refused")
}

func (*sink) Delay(context.Context, []record.Delayed) error {
	return fmt.Errorf("an effect was delayed")
}

func (s *sink) Send(_ context.Context, deliveries []record.Delivery) []error {
	return make([]error, len(deliveries))
}
