package delay

import "errors"

// SmallMessage is the size of a message, its attributes included, that every store can hold, in
// bytes.
const SmallMessage = 350 << 10

// ErrTooLarge says that a store can't hold an item of that size. A retry can't succeed.
var ErrTooLarge = errors.New("the message is too large to be delayed for so long")
