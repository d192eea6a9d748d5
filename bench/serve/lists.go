package main

import (
	"encoding/json"
	"fmt"
	"log"
	"net/url"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// query is one filter of a list of runs, as a parameter of GET /runs.
type query struct{ name, value string }

// queries are all filters; of some, one that finds much and one that finds little.
func (b *bench) queries() []query {
	when := func(i int) string { return at(i).Format(time.RFC3339) }
	list := []query{{"oldest", "true"}}
	for _, p := range []string{"queued", "running", "waiting", "interrupted", "ok", "error", "cancelled"} {
		list = append(list, query{"phase", p})
	}
	return append(list, query{"recipe", "recipe-7"}, query{"recipe", "rare"}, query{"recipe", "none"}, query{"queue", "slow"},
		query{"queue", ""}, query{"queue", "none"}, query{"label", "team=team-3"}, query{"label", "customer=77"},
		query{"parent", "run-000042"}, query{"q", "run-0123"}, query{"q", "run-01"}, query{"from", when(b.runs / 2)},
		query{"from", when(b.runs - 20)}, query{"to", when(b.runs / 2)}, query{"to", when(b.runs / 20)},
		query{"due", when(1000)}, query{"due", far.AddDate(1, 0, 0).Format(time.RFC3339)}, query{"signalled", "true"})
}

// lists measures lists of 50 runs.
func (b *bench) lists() error {
	s, err := b.serve("lists", map[string]string{"tiny": tiny}, "--no-work")
	if err != nil {
		return err
	}
	defer s.stop()
	queries := b.queries()
	var alone, pairs [][]query
	for i, one := range queries {
		alone = append(alone, []query{one})
		for _, two := range queries[i+1:] {
			if one.name != two.name {
				pairs = append(pairs, []query{one, two})
			}
		}
	}
	for _, round := range []struct {
		what  string
		lists [][]query
		times int
	}{
		{"no filter", [][]query{nil}, 200},
		{"one filter", alone, 50},
		{"two filters", pairs, 8},
	} {
		all, slowest, err := b.list(s, round.lists, round.times)
		if err != nil {
			return err
		}
		b.table.add(fmt.Sprintf("list of 50 of %s runs: %s", thousands(b.runs), round.what), "p99 ≤ 20 ms",
			fmt.Sprintf("%v; slowest: %s", all, slowest))
	}
	if err := b.behind(s, alone); err != nil {
		return err
	}
	return b.due()
}

func thousands(n int) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// list lists with each of some filters, in turns, and says which is the slowest by its median.
func (b *bench) list(s *server, lists [][]query, n int) (all times, slowest string, err error) {
	each := make([]times, len(lists))
	for range n {
		for i, l := range lists {
			took, _, err := s.get(b.ctx, pathOf(l))
			if err != nil {
				return nil, "", err
			}
			each[i] = append(each[i], took)
			all = append(all, took)
		}
	}
	order := make([]int, len(lists))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return int(each[j].at(0.5) - each[i].at(0.5)) })
	for _, i := range order[:min(5, len(order))] {
		log.Printf("  %-60s %v", textOf(lists[i]), each[i])
	}
	return all, fmt.Sprintf("%s (%v)", textOf(lists[order[0]]), each[order[0]]), nil
}

func pathOf(l []query) string {
	q := url.Values{}
	for _, one := range l {
		q.Add(one.name, one.value)
	}
	return "/runs?" + q.Encode()
}

func textOf(l []query) (text string) {
	for _, one := range l {
		text += " " + one.name + "=" + one.value
	}
	if text == "" {
		return "all"
	}
	return "`" + text[1:] + "`"
}

// behind measures the pages behind the first.
func (b *bench) behind(s *server, lists [][]query) error {
	var all times
	for _, l := range lists {
		path := pathOf(l)
		for page := path; len(page) > 0; {
			took, text, err := s.get(b.ctx, page)
			if err != nil {
				return err
			}
			if page != path {
				all = append(all, took)
			}
			var got struct{ Next string }
			if err := json.Unmarshal(text, &got); err != nil {
				return err
			}
			if page = ""; got.Next != "" && len(all)%20 != 19 {
				page = path + "&after=" + url.QueryEscape(got.Next)
			}
		}
	}
	b.table.add("list: pages behind the first, one filter", "p99 ≤ 20 ms", all.String())
	return nil
}

// due measures, in the store, how long a worker takes to see that nothing is due.
func (b *bench) due() error {
	s, err := b.media.open(b.ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var all times
	for range 500 {
		begin := time.Now()
		runs, err := s.List(b.ctx, checkpoint.Filter{Queues: []string{"default", "slow", "fast"}, DueBefore: time.Now(), Oldest: true, Limit: 64})
		if err != nil || len(runs) > 0 {
			return fmt.Errorf("%d runs are due: %w", len(runs), err)
		}
		all = append(all, time.Since(begin))
	}
	b.table.add("nothing is due, in the store", "≤ 2 ms", all.String())
	return nil
}
