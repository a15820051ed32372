package client

// inMemory is the spool of a sender without a folder.
type inMemory struct{}

func (inMemory) Append(Message) (func() error, error) { return func() error { return nil }, nil }
func (inMemory) SetEpoch(uint64) error                { return nil }
func (inMemory) Done(uint64) error                    { return nil }
func (inMemory) Close() error                         { return nil }

// open opens the spool, and continues where it ends.
func (s *Sender) open() error {
	if s.options.Folder == "" {
		s.spool = inMemory{}
		return nil
	}
	own := spoolBegin{Version: spoolVersion, Stream: s.options.Stream, Group: s.options.Group, Source: s.options.Source, First: 1}
	file, messages, err := openSpool(s.options.Folder, own)
	if err != nil {
		return err
	}
	s.spool, s.epoch, s.first = file, file.begin.Epoch, file.begin.First
	for _, m := range messages {
		m.Stream, m.Group, m.Source = own.Stream, own.Group, own.Source
		q := &queued{message: m, size: sizeOf(&m)}
		s.queue, s.bytes = append(s.queue, q), s.bytes+q.size
	}
	s.durable = s.first + uint64(len(s.queue)) - 1
	return nil
}
