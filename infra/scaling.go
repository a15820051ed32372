package infra

import (
	"errors"
	"fmt"
	"time"
)

// completeScaling takes the settings of pollers, and checks those of batches and concurrency.
func (s *Settings) completeScaling(given map[string]any) error {
	if given["minPollers"] != nil || given["maxPollers"] != nil {
		if given["maxConcurrency"] == nil {
			s.MaxConcurrency = 0
		}
		orElse(&s.MinPollers, 2)
		orElse(&s.MaxPollers, 200)
		s.Pollers = &Pollers{Min: s.MinPollers, Max: s.MaxPollers}
	}
	if err := s.checkScaling(); err != nil {
		return err
	}
	return s.withDefaults().checkReserved(0)
}

// checkScaling checks batches and pollers, before there are defaults.
func (p *PipelineProps) checkScaling() error {
	window := p.BatchWindow
	switch pollers := p.Pollers; {
	case p.BatchSize < 0 || p.BatchSize > 10_000:
		return fmt.Errorf("batchSize: %d is not from 1 to 10000", p.BatchSize)
	case window < 0 || window > 5*time.Minute || window%time.Second != 0:
		return fmt.Errorf("batchWindow: %s is not a number of seconds up to 300", window)
	case p.BatchSize > fifoBatch && window == 0:
		return fmt.Errorf("batchSize: %d is more than %d, so it needs a batchWindow", p.BatchSize, fifoBatch)
	case pollers == nil:
		return nil
	case p.MaxConcurrency != 0:
		return errors.New("minPollers, maxPollers: Lambda has either pollers or maxConcurrency")
	case pollers.Min < 2 || pollers.Min > 200 || pollers.Max < pollers.Min || pollers.Max > 2000:
		return fmt.Errorf("minPollers, maxPollers: %d and %d are not from 2 to 200, and from that to 2000", pollers.Min, pollers.Max)
	}
	return nil
}

// perQueue returns how many invocations each queue can cause at the same time.
func (p *PipelineProps) perQueue() int {
	if p.Pollers != nil {
		return perPoller * p.Pollers.Max
	}
	return p.MaxConcurrency
}

// checkReserved checks that the reserved concurrency is enough for all queues of a function, plus
// one invocation. sources are the further queues of the process function.
func (p *PipelineProps) checkReserved(sources int) error {
	perQueue := p.perQueue()
	for _, f := range []struct {
		name             string
		reserved, queues int
	}{{"processConcurrency", p.ProcessConcurrency, 2 + sources}, {"publishConcurrency", p.PublishConcurrency, 2}} {
		least := f.queues*perQueue + 1
		if f.reserved == 0 || f.reserved >= least {
			continue
		}
		if f.reserved == p.ReservedConcurrency {
			f.name = "reservedConcurrency"
		}
		return fmt.Errorf("%s: %d is less than %d: %d queues feed the function, each with %d invocations at once, and sweeps or redrives need one more; "+
			"what is throttled waits, and its delivery counts", f.name, f.reserved, least, f.queues, perQueue)
	}
	if p.IngestConcurrency < 0 {
		return fmt.Errorf("ingestConcurrency: %d is less than 0", p.IngestConcurrency)
	}
	return nil
}
