package program

import (
	"slices"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
)

// channelTypes are the kinds of channels by the words of recipes.
var channelTypes = map[string]machine.ChannelKind{"value": machine.ValueChannel, "queue": machine.QueueChannel,
	"topic": machine.TopicChannel}

func channelsOf(r *recipe.Recipe) []machine.Channel {
	var list []machine.Channel
	for _, c := range r.Channels {
		list = append(list, machine.Channel{Name: c.Name, Kind: channelTypes[c.Kind]})
	}
	return list
}

// ChannelIndex finds a channel by its name; -1 if there is none.
func ChannelIndex(list []machine.Channel, name string) int {
	return slices.IndexFunc(list, func(c machine.Channel) bool { return c.Name == name })
}

// channel lowers the channel that a step names; an unknown channel was reported when the recipe was read.
func (s *stepCompiler) channel(kind machine.Kind, name recipe.Name) {
	s.node.Kind, s.node.Channel = kind, ChannelIndex(s.channels, name.Text)
}

func (s *stepCompiler) compileSend(src *recipe.Send, names *expr.Scope) {
	s.channel(machine.Send, src.Channel)
	s.with(src.Value, names)
}

func (s *stepCompiler) compileReceive(src *recipe.Receive, names *expr.Scope) {
	s.channel(machine.Receive, src.Channel)
	s.node.Timeout, s.node.OnEmpty.Fail = src.Timeout, src.OnEmpty.Fail
	if set := src.OnEmpty.Set; set != nil {
		t, refs := s.template(set, names)
		s.node.OnEmpty.Set = t
		s.refer(refs)
	}
}

// users are the steps of one execution of a file that use a channel, by path.
type users struct{ sends, receives []string }

// AfterSends returns, by path, what else comes before steps that receive, besides their needs: what they get
// depends on all sends to the channel, and on the other receivers. The first receive depends on the sends, and the
// receives depend on each other in a circle.
func AfterSends(r *recipe.Recipe) map[string][]string {
	after := map[string][]string{}
	var file func(r *recipe.Recipe, prefix string)
	var steps func(list []recipe.Step, prefix string, channels map[string]*users)
	body := func(b *recipe.Body, prefix string, channels map[string]*users) {
		switch {
		case b == nil:
		case b.Recipe != nil:
			file(b.Recipe, prefix)
		default:
			steps(b.Steps, prefix, channels)
		}
	}
	steps = func(list []recipe.Step, prefix string, channels map[string]*users) {
		for i := range list {
			s, path := &list[i], prefix+list[i].ID
			switch {
			case s.Send != nil && channels[s.Send.Channel.Text] != nil:
				u := channels[s.Send.Channel.Text]
				u.sends = append(u.sends, path)
			case s.Receive != nil && channels[s.Receive.Channel.Text] != nil:
				u := channels[s.Receive.Channel.Text]
				u.receives = append(u.receives, path)
			case s.Loop != nil:
				body(s.Loop.Body, path+"/", channels)
			case s.Fork != nil:
				for _, b := range s.Fork.Branches {
					body(b.Body, path+"/"+b.Name+"/", channels)
				}
			case s.Switch != nil:
				for _, c := range s.Switch.Cases {
					body(c.Body, path+"/"+c.Name.Text+"/", channels)
				}
				body(s.Switch.Default, path+"/default/", channels)
			default:
				body(s.Body, path+"/", channels)
			}
		}
	}
	file = func(r *recipe.Recipe, prefix string) {
		channels := map[string]*users{}
		for _, c := range r.Channels {
			channels[c.Name] = &users{}
		}
		steps(r.All(), prefix, channels)
		for _, u := range channels {
			for i, path := range u.receives {
				after[path] = []string{u.receives[(i+len(u.receives)-1)%len(u.receives)]}
				if i == 0 {
					after[path] = append(after[path], u.sends...)
				}
			}
		}
	}
	file(r, "")
	return after
}
