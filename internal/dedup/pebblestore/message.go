package pebblestore

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

func writeMessage(e *encoder, m *record.Message) {
	at := e.object()
	e.textField(at, 1, m.Principal)
	e.textField(at, 2, m.Stream)
	e.textField(at, 3, m.ID)
	e.textField(at, 4, m.Group)
	e.textField(at, 5, m.Source)
	e.uintField(at, 6, m.Epoch)
	e.uintField(at, 7, m.Sequence)
	mapField(e, at, 8, m.DependsOn, writeUint)
	e.textField(at, 9, m.ContentType)
	mapField(e, at, 10, m.Headers, writeText)
	e.bytesField(at, 11, m.Body)
	e.textField(at, 12, m.Route)
	e.intField(at, 13, micros(m.Accepted))
	e.intField(at, 14, int64(m.Retention))
}

func readMessage(d *decoder, m *record.Message) {
	d.fields(func(number uint64) bool {
		switch number {
		case 1:
			m.Principal = d.text()
		case 2:
			m.Stream = d.text()
		case 3:
			m.ID = d.text()
		case 4:
			m.Group = d.text()
		case 5:
			m.Source = d.text()
		case 6:
			m.Epoch = d.uint()
		case 7:
			m.Sequence = d.uint()
		case 8:
			m.DependsOn = mapOf(d, (*decoder).uint)
		case 9:
			m.ContentType = d.text()
		case 10:
			m.Headers = mapOf(d, (*decoder).text)
		case 11:
			m.Body = d.bytes()
		case 12:
			m.Route = d.text()
		case 13:
			m.Accepted = d.time()
		case 14:
			m.Retention = time.Duration(d.int())
		default:
			return false
		}
		return true
	})
}
