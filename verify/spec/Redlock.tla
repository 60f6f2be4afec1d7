------------------------------ MODULE Redlock ------------------------------
(* Leases over independent nodes: acquire, decide, release, extend, hand     *)
(* on, nodes that forget, and fencing tokens (R1 to R6 and R9 in             *)
(* docs/guarantees.md). Of R5 only the hand-off: waiting decides only        *)
(* when a lease starts, which it may do here at any time.                    *)
(*                                                                          *)
(* Time is discrete. All clocks agree, so the drift is zero, and a validity  *)
(* is as long as a TTL. A request may be delivered at any later time, any    *)
(* number of times, in any order, or never. A client may decide on answers   *)
(* at any later time; answers that are lost are those of requests that are   *)
(* never delivered. A lease is one attempt, and has one nonce, which here is *)
(* its own name.                                                             *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Nodes,       \* the servers of the set
    Leases,      \* attempts to hold the one resource
    TTL,         \* ticks for which a node stores a key
    MaxTime,     \* the last tick that is explored
    MaxCrashes,  \* how many times a node may lose its data
    Fencing,     \* whether leases have tokens
    MaxRaises,   \* rounds of raise in an attempt
    MaxHandOffs, \* how many times a lease is handed on
    LeftOut      \* the guards that are not in force: see Guards

(* Each guard, without which an invariant is violated. *)
Guards == {
    "majority",      \* R1: a lease needs the grants of a quorum
    "start",         \* R1: the validity counts from the start of the attempt
    "compare",       \* R3: a release compares the nonce
    "renewal start", \* R4: an extension counts from the start of its round
    "hand-off end",  \* R5: a lease that is handed on ends when it would have
    "wait",          \* R6: a node that forgot does not vote for a TTL
    "learn",         \* R6: a node that forgot learns the fences of others
    "floor",         \* R6: nodes that start anew have a floor for tokens
    "fence",         \* R9: a node accepts no number up to its fence
    "raise",         \* R9: a grant alone is no acceptance of the number
    "block"}         \* R9: a node stores the end of the block of numbers

ASSUME
    /\ TTL \in Nat /\ TTL > 0
    /\ {MaxTime, MaxCrashes, MaxRaises, MaxHandOffs} \subseteq Nat
    /\ Fencing \in BOOLEAN
    /\ LeftOut \subseteq Guards

Has(guard) == guard \notin LeftOut

Quorums == {Q \in SUBSET Nodes : 2 * Cardinality(Q) > Cardinality(Nodes)}
IsEnough(Q) ==
    \/ Q \in Quorums
    \/ ~Has("majority") /\ 2 * Cardinality(Q) + 1 >= Cardinality(Nodes)
(* N - q + 1 nodes: every such set shares a node with every quorum. *)
Witnesses(n) ==
    {W \in SUBSET (Nodes \ {n}) : \A Q \in Quorums : W \cap Q # {}}
None == "none"
Never == -1
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
(* The numbers of a lease: one for each of its holders. *)
Block == 1 + MaxHandOffs
BlockEnd(number) == IF Has("block") THEN number + Block - 1 ELSE number

VARIABLES
    now,      \* the present tick
    (* Of each node: *)
    key,      \* the lease whose key it stores, and the end of the key
    fence,    \* the end of the highest block that it accepted
    votes,    \* whether it votes
    forgot,   \* when it lost its data
    crashes,  \* how many nodes lost their data
    (* Of each lease: *)
    phase,    \* "new", "acquiring", "held", "over"
    until,    \* the end of the validity
    started,  \* the start of the attempt
    set,      \* for each node, the start of the latest request that set its TTL
    round,    \* 0 for the proposal, then the raises
    number,   \* the number of the present round
    accepted, \* the nodes that accepted this number
    seen,     \* for each node, the fence that it reported
    hands,    \* how many times it was handed on
    token,    \* the token of its present holder
    before,   \* the greatest token completed before that holder's request
    newest,   \* the greatest token of all completed leases
    requests  \* what was sent to nodes

node == <<key, fence, votes, forgot, crashes>>
fencing == <<round, number, accepted, seen>>
holder == <<hands, token, before, newest>>
vars == <<now, node, phase, until, started, set, fencing, holder, requests>>

NoKey == [lease |-> None, end |-> 0]
Stored(n) == IF now < key[n].end THEN key[n] ELSE NoKey
IsOpen(l) == phase[l] \in {"acquiring", "held"}
Granting(l) == {n \in Nodes : set[l][n] # Never}

Init ==
    /\ now = 0
    /\ key = [n \in Nodes |-> NoKey]
    /\ fence = [n \in Nodes |-> 0]
    /\ votes = [n \in Nodes |-> TRUE]
    /\ forgot = [n \in Nodes |-> 0]
    /\ crashes = 0
    /\ phase = [l \in Leases |-> "new"]
    /\ until = [l \in Leases |-> 0]
    /\ started = [l \in Leases |-> 0]
    /\ set = [l \in Leases |-> [n \in Nodes |-> Never]]
    /\ round = [l \in Leases |-> 0]
    /\ number = [l \in Leases |-> 0]
    /\ accepted = [l \in Leases |-> {}]
    /\ seen = [l \in Leases |-> [n \in Nodes |-> 0]]
    /\ hands = [l \in Leases |-> 0]
    /\ token = [l \in Leases |-> 0]
    /\ before = [l \in Leases |-> 0]
    /\ newest = 0
    /\ requests = {}

(* A key that has expired is no key: states that differ in it alone are one. *)
Tick ==
    /\ now < MaxTime
    /\ now' = now + 1
    /\ key' = [n \in Nodes |-> IF now + 1 < key[n].end THEN key[n] ELSE NoKey]
    /\ UNCHANGED <<fence, votes, forgot, crashes, phase, until, started, set,
                   fencing, holder, requests>>

Request(type, l, n, start, deadline) ==
    [type |-> type, lease |-> l, node |-> n, start |-> start,
     round |-> round[l], number |-> number[l], deadline |-> deadline]

(* R1: ask all nodes at once. The number proposed is the same for all leases, *)
(* as if clients had no common memory.                                       *)
Start(l) ==
    /\ phase[l] = "new"
    /\ phase' = [phase EXCEPT ![l] = "acquiring"]
    /\ started' = [started EXCEPT ![l] = now]
    /\ until' = [until EXCEPT ![l] = now + TTL]
    /\ number' = [number EXCEPT ![l] = 1]
    /\ before' = [before EXCEPT ![l] = newest]
    /\ requests' = requests \cup
         {[Request("acquire", l, n, now, now + TTL) EXCEPT !.number = 1] : n \in Nodes}
    /\ UNCHANGED <<now, node, set, round, accepted, seen, hands, token, newest>>

(* A node accepts a number above its fence, and stores the end of its block.  *)
(* Only the answer to the present round of an open lease is read.            *)
Accept(m) ==
    LET accepts == m.number > fence[m.node] \/ ~Has("fence")
        isRead == IsOpen(m.lease)
    IN IF ~Fencing THEN UNCHANGED <<fence, accepted, seen>> ELSE
       /\ fence' = [fence EXCEPT ![m.node] = Max({@, BlockEnd(m.number)})]
       /\ seen' = [seen EXCEPT ![m.lease][m.node] =
                     IF isRead THEN Max({@, fence[m.node]}) ELSE @]
       /\ accepted' = [accepted EXCEPT ![m.lease] =
                         IF isRead /\ accepts /\ m.round = round[m.lease]
                         THEN @ \cup {m.node} ELSE @]

(* A node's key is set by a request that was sent at `m.start`. *)
Store(m) ==
    /\ key' = [key EXCEPT ![m.node] = [lease |-> m.lease, end |-> now + TTL]]
    /\ set' = [set EXCEPT ![m.lease][m.node] =
                 IF IsOpen(m.lease) THEN Max({@, m.start}) ELSE @]

(* A node stores the key if it is free. It runs nothing after the deadline.  *)
RunAcquire(m) ==
    /\ m.type = "acquire"
    /\ votes[m.node] /\ now < m.deadline
    /\ Stored(m.node).lease \in {None, m.lease}
    /\ Store(m)
    /\ Accept(m)
    /\ UNCHANGED <<now, votes, forgot, crashes, phase, until, started, round, number,
                   holder, requests>>

(* R9: a number above the fences seen, to nodes that granted. *)
RunRaise(m) ==
    /\ m.type = "raise"
    /\ votes[m.node]
    /\ Stored(m.node).lease = m.lease
    /\ Accept(m)
    /\ UNCHANGED <<now, key, votes, forgot, crashes, phase, until, started, set, round,
                   number, holder, requests>>

(* R4: a node that lost the key stores it again, but not after the end of    *)
(* the validity that the request was sent in.                                *)
RunExtend(m) ==
    /\ m.type = "extend"
    /\ votes[m.node]
    /\ \/ Stored(m.node).lease = m.lease
       \/ Stored(m.node).lease = None /\ now < m.deadline
    /\ Store(m)
    /\ UNCHANGED <<now, fence, votes, forgot, crashes, phase, until, started, fencing,
                   holder, requests>>

(* R3: a release compares the nonce. *)
RunRelease(m) ==
    /\ m.type = "release"
    /\ Stored(m.node).lease = m.lease \/ ~Has("compare")
    /\ key' = [key EXCEPT ![m.node] = NoKey]
    /\ UNCHANGED <<now, fence, votes, forgot, crashes, phase, until, started, set,
                   fencing, holder, requests>>

Run == \E m \in requests :
    RunAcquire(m) \/ RunRaise(m) \/ RunExtend(m) \/ RunRelease(m)

(* R1: held with a quorum inside the validity that began with the attempt.   *)
(* R9: acceptances of different numbers are never added up.                  *)
Hold(l) ==
    /\ phase[l] = "acquiring"
    /\ now < until[l] \/ ~Has("start")
    /\ IsEnough(IF Fencing /\ Has("raise") THEN accepted[l] ELSE Granting(l))
    /\ phase' = [phase EXCEPT ![l] = "held"]
    /\ until' = [until EXCEPT ![l] = IF Has("start") THEN @ ELSE now + TTL]
    /\ token' = [token EXCEPT ![l] = number[l]]
    /\ newest' = Max({newest, number[l]})
    /\ UNCHANGED <<now, node, started, set, fencing, hands, before, requests>>

(* R9: a new round, on the answers of any quorum that granted. *)
Raise(l) ==
    /\ phase[l] = "acquiring" /\ Fencing
    /\ round[l] < MaxRaises
    /\ \E Q \in Quorums :
         /\ Q \subseteq Granting(l)
         /\ number' = [number EXCEPT ![l] = Max({seen[l][n] : n \in Q} \cup {@}) + 1]
         /\ round' = [round EXCEPT ![l] = @ + 1]
         /\ requests' = requests \cup
              {[Request("raise", l, n, now, 0) EXCEPT
                  !.round = round'[l], !.number = number'[l]] : n \in Q}
    /\ accepted' = [accepted EXCEPT ![l] = {}]
    /\ UNCHANGED <<now, node, phase, until, started, set, seen, holder>>

(* R4: a round of renewal, if it can prolong the validity. *)
Extend(l) ==
    /\ phase[l] = "held" /\ now < until[l]
    /\ now + TTL > until[l]
    /\ requests' = requests \cup
         {Request("extend", l, n, now, until[l]) : n \in Nodes}
    /\ UNCHANGED <<now, node, phase, until, started, set, fencing, holder>>

(* A quorum stores the key since `start` at the earliest: the validity       *)
(* counts from there. A lease past its end is never revived.                 *)
Renew(l) ==
    /\ phase[l] = "held" /\ now < until[l]
    /\ \E start \in 0..now :
         LET end == IF Has("renewal start") THEN start + TTL ELSE now + TTL
         IN /\ IsEnough({n \in Nodes : set[l][n] >= start})
            /\ end > until[l]
            /\ until' = [until EXCEPT ![l] = end]
    /\ UNCHANGED <<now, node, phase, started, set, fencing, holder, requests>>

(* R5: the next request of the process takes the lease over, without a       *)
(* message, and gets the next number of the block.                           *)
HandOn(l) ==
    /\ phase[l] = "held" /\ now < until[l]
    /\ hands[l] < MaxHandOffs
    /\ hands' = [hands EXCEPT ![l] = @ + 1]
    /\ token' = [token EXCEPT ![l] = @ + 1]
    /\ before' = [before EXCEPT ![l] = newest]
    /\ newest' = Max({newest, token[l] + 1})
    /\ until' = [until EXCEPT ![l] = IF Has("hand-off end") THEN @ ELSE now + TTL]
    /\ UNCHANGED <<now, node, phase, started, set, fencing, requests>>

(* R2 and R3: at any time; the release goes to every node. The client keeps  *)
(* nothing of a lease that is over.                                          *)
End(l) ==
    /\ IsOpen(l)
    /\ phase' = [phase EXCEPT ![l] = "over"]
    /\ requests' = requests \cup
         {[type |-> "release", lease |-> l, node |-> n] : n \in Nodes}
    /\ until' = [until EXCEPT ![l] = 0]
    /\ started' = [started EXCEPT ![l] = 0]
    /\ set' = [set EXCEPT ![l] = [n \in Nodes |-> Never]]
    /\ round' = [round EXCEPT ![l] = 0]
    /\ number' = [number EXCEPT ![l] = 0]
    /\ accepted' = [accepted EXCEPT ![l] = {}]
    /\ seen' = [seen EXCEPT ![l] = [n \in Nodes |-> 0]]
    /\ hands' = [hands EXCEPT ![l] = 0]
    /\ token' = [token EXCEPT ![l] = 0]
    /\ before' = [before EXCEPT ![l] = 0]
    /\ UNCHANGED <<now, node, newest>>

(* R6: a node that lost its data does not vote ... *)
Crash(n) ==
    /\ crashes < MaxCrashes
    /\ votes[n]
    /\ crashes' = crashes + 1
    /\ votes' = [votes EXCEPT ![n] = FALSE]
    /\ forgot' = [forgot EXCEPT ![n] = now]
    /\ key' = [key EXCEPT ![n] = NoKey]
    /\ fence' = [fence EXCEPT ![n] = 0]
    /\ UNCHANGED <<now, phase, until, started, set, fencing, holder, requests>>

Waited(n) == now >= forgot[n] + TTL \/ ~Has("wait")

(* ... until a TTL has passed, and it has learnt the fences of so many       *)
(* others that each quorum has one of them.                                  *)
Activate(n) ==
    /\ ~votes[n] /\ Waited(n)
    /\ \E W \in Witnesses(n) :
         /\ \A w \in W : votes[w]
         /\ fence' = [fence EXCEPT ![n] =
                        IF Has("learn") THEN Max({fence[w] : w \in W}) ELSE 0]
    /\ votes' = [votes EXCEPT ![n] = TRUE]
    /\ forgot' = [forgot EXCEPT ![n] = 0]
    /\ UNCHANGED <<now, key, crashes, phase, until, started, set, fencing, holder,
                   requests>>

(* If a quorum forgot, there are not enough others. These nodes start        *)
(* together, with a floor above every token.                                 *)
Bootstrap ==
    LET blank == {n \in Nodes : ~votes[n]}
        numbers == {newest} \cup {number[l] : l \in Leases}
        floor == IF Has("floor") THEN BlockEnd(Max(numbers)) ELSE 0
    IN /\ blank \in Quorums
       /\ \A n \in blank : Waited(n)
       /\ votes' = [n \in Nodes |-> TRUE]
       /\ forgot' = [n \in Nodes |-> 0]
       /\ fence' = [n \in Nodes |-> IF n \in blank /\ Fencing THEN floor ELSE fence[n]]
       /\ UNCHANGED <<now, key, crashes, phase, until, started, set, fencing, holder,
                      requests>>

Next ==
    \/ Tick
    \/ Run
    \/ \E l \in Leases :
         Start(l) \/ Hold(l) \/ Raise(l) \/ Extend(l) \/ Renew(l) \/ HandOn(l) \/ End(l)
    \/ \E n \in Nodes : Crash(n) \/ Activate(n)
    \/ Bootstrap

Spec == Init /\ [][Next]_vars

Holds(l) == phase[l] = "held" /\ now < until[l]

(* P1 *)
MutualExclusion ==
    \A l, m \in Leases : Holds(l) /\ Holds(m) => l = m

(* P5: above every token that was completed before the request. *)
TokensGrow ==
    \A l \in Leases : Fencing /\ phase[l] = "held" => token[l] > before[l]

(* R4: while no node has forgotten, a quorum stores the key of a lease until *)
(* its end.                                                                  *)
QuorumKeepsKey ==
    \A l \in Leases : Holds(l) /\ crashes = 0 =>
        {n \in Nodes : key[n].lease = l /\ key[n].end >= until[l]} \in Quorums

(* Names are alike: TLC visits one of each group of states. *)
Symmetry == Permutations(Nodes) \cup Permutations(Leases)
=============================================================================
