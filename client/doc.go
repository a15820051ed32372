// Package client sends messages to a once server and keeps sending each until it is acknowledged, under one key, so that a message that was sent many
// times counts once.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	receipt, err := c.Send(ctx, client.Message{Stream: "orders", Group: "customer-7", Body: order})
//
// A program that may crash between making a message and learning of its acknowledgement chooses the key itself, from something that it still knows
// after the crash (an order number, a row's id), and sends the message again under that key. A key that Send makes up is lost in a crash.
//
// # Errors
//
// A [*Problem] with a type is the server's refusal: the same message will be refused again. Compare its type with errors.Is(err, client.KeyReuse). One
// without a type is the answer of something else in the server's place, and may hide that the message was taken: see to what stands there, and send the
// message again under the same key. An [*UnacknowledgedError] says that the call ended, by its context or by [Options.MaxElapsed], before there was an
// answer: the message may have been taken or not, and sending it again under the same key is right. Both errors tell the key, also where Send made it up.
// Any other error is a mistake in the arguments, found before anything was sent.
//
// # Limits
//
// Bodies are held in memory and sent whole. Names and keys are limited as the server limits them: a key is at most 256 characters of printable ASCII.
package client
