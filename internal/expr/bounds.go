package expr

// The limits of expressions. A hostile expression meets one of them well within a second.
const (
	maxSource = 16 << 10 // bytes of one expression's text
	maxNodes  = 2000     // nodes of its tree; every use of a shared node counts
	maxString = 1 << 20  // bytes of a string that an expression or a template makes

	maxProblems  = 10  // reported for one expression; a scalar with so many is not read further
	maxSuggested = 100 // names among which a misspelt one is looked for; with more there is no suggestion

	maxPattern      = 1000 // bytes of a regular expression
	maxInstructions = 2000 // of the program that it compiles to

	// maxWork limits the time of one evaluation. A predicate costs predicateWork and one for each
	// node of its body, every time; whatever reads data costs by its size. Simple predicates thus
	// run about a million times.
	maxWork       = 12_000_000
	predicateWork = 3

	// maxMemory limits what one evaluation allocates, in bytes, and the size of its result when
	// everything that is shared inside it is counted each time.
	maxMemory = 64 << 20

	// All expressions of one template together have so many times the limits of one.
	templateFactor = 4
)
