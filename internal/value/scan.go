package value

// Scanner passes over one JSON text, part by part, for callers that need to know where each part stands. Its errors
// are of type [*SyntaxError].
//
// At a "[" or a "{" the caller calls Enter, and then Next until it is false; each time, a list has an item there, and
// an object a member, whose name Member reads. At anything else, Scalar reads the value.
type Scanner struct{ d decoder }

// NewScanner returns a scanner of data from the byte at start on.
func NewScanner(data []byte, start int) *Scanner { return &Scanner{decoder{data: data, pos: start}} }

// Peek skips white space and returns the byte after it, 0 at the end of the text.
func (s *Scanner) Peek() byte { return s.d.space() }

// Offset returns the place in the text that has been reached, in bytes.
func (s *Scanner) Offset() int { return s.d.pos }

// Enter passes over the bracket that begins a list or an object.
func (s *Scanner) Enter() { s.d.pos++ }

// Next moves to the next part of the list or object that the byte closing ends. It is false, and behind that byte,
// after the last one. first says that no part has been read yet.
func (s *Scanner) Next(closing byte, first bool) (bool, error) { return s.d.next(closing, first) }

// Member reads the name of a member, with the colon. It returns where the name begins, too.
func (s *Scanner) Member() (start int, name string, err error) { return s.d.member() }

// Scalar reads a value that is no list and no object, as [Decode] does.
func (s *Scanner) Scalar() (any, error) { return s.d.value(0) }

// End reports what stands behind the value.
func (s *Scanner) End() error { return s.d.end() }
