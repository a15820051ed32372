// Package client sends messages to a once server. It repeats each message under the same key until
// it is acknowledged, so that the server processes it once.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	receipt, err := c.Send(ctx, client.Message{Stream: "orders", Group: "customer-7", Body: order})
//
// [Client.SendBatch] sends many messages in one request. [Client.Tail] reads the log of a group. A
// [Sender] keeps messages while there is no connection, and sends them in order.
//
// A program that may crash before it learns of the acknowledgement should choose the key itself,
// from data that survives the crash (an order number, a row's id), and send the message again under
// that key. A key that Send generates is lost in a crash.
//
// # Errors
//
// A [*Problem] with a type is a refusal by the server: the same message will be refused again.
// Compare its type with errors.Is(err, client.KeyReuse).
//
// A [*Problem] without a type is the response of something between client and server, such as a
// proxy. The message may have been accepted: fix the cause, and send the message again under the
// same key.
//
// An [*UnacknowledgedError] says that the call ended, by its context or by [Options.MaxElapsed],
// before there was an answer. The message may have been accepted: send it again under the same key.
// Both errors contain the key, even if Send generated it.
//
// Any other error is an invalid argument, detected before anything was sent.
//
// # Limits
//
// Bodies are held in memory and sent whole. Names and keys have the server's limits: a key is at
// most 256 characters of printable ASCII.
package client
