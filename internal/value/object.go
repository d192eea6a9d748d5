package value

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Object writes canonical JSON objects member by member, without a map: the same bytes as [AppendJSON] of a map
// with these members. They come in the order of their names, as bytes; each name once. The first mistake is kept
// and is the error of End. The objects of one Object, written one after the other, share memory. The zero Object
// is ready.
type Object struct {
	buf  []byte
	from int      // where the object in buf begins that is being written
	last []string // name of the last member of each object that is open, the outermost first
	err  error
}

// Int writes a number.
func (o *Object) Int(name string, i int64) {
	o.name(name)
	o.buf = strconv.AppendInt(o.buf, i, 10)
}

// Bool writes true or false.
func (o *Object) Bool(name string, b bool) {
	o.name(name)
	o.buf = strconv.AppendBool(o.buf, b)
}

// String writes a string.
func (o *Object) String(name, s string) {
	o.name(name)
	o.buf = AppendString(o.buf, s)
}

// Value writes what AppendJSON takes.
func (o *Object) Value(name string, v any) {
	o.name(name)
	buf, err := appendValue(o.buf, v, len(o.last))
	if o.buf = buf; err != nil {
		o.fail(at(name, err))
	}
}

// Open begins a member that is an object itself: what follows are its members, until Close.
func (o *Object) Open(name string) {
	o.name(name)
	o.buf, o.last = append(o.buf, '{'), append(o.last, "")
}

// Close ends the object that Open began last.
func (o *Object) Close() {
	if len(o.last) < 2 {
		o.fail(fmt.Errorf("no object is open"))
		return
	}
	o.buf, o.last = append(o.buf, '}'), o.last[:len(o.last)-1]
}

// End returns the object, which stays as it is, and gets ready for the next one.
func (o *Object) End() (json.RawMessage, error) {
	if len(o.last) == 0 {
		o.begin()
	}
	if len(o.last) > 1 {
		o.fail(fmt.Errorf("member %q is not closed", o.last[len(o.last)-2]))
	}
	o.buf = append(o.buf, '}')
	data, err := json.RawMessage(o.buf[o.from:len(o.buf):len(o.buf)]), o.err
	o.from, o.last, o.err = len(o.buf), o.last[:0], nil
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (o *Object) begin() {
	const room = 256 // for a few small objects
	if cap(o.buf)-len(o.buf) < 32 {
		o.buf, o.from = make([]byte, 0, room), 0 // what the old memory holds stays there
	}
	o.buf, o.last = append(o.buf, '{'), append(o.last, "")
}

// name writes what stands before a member's value.
func (o *Object) name(name string) {
	if len(o.last) == 0 {
		o.begin()
	}
	last := &o.last[len(o.last)-1]
	if o.buf[len(o.buf)-1] != '{' {
		if name <= *last {
			o.fail(fmt.Errorf("member %q comes after %q", name, *last))
		}
		o.buf = append(o.buf, ',')
	}
	*last = name
	o.buf = append(AppendString(o.buf, name), ':')
}

func (o *Object) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}
