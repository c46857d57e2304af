package streamproof.recorder.hooks;

import net.bytebuddy.asm.Advice;
import streamproof.recorder.Events;

/** Is copied to the beginning of a method. */
public final class EnterAdvice {
  private EnterAdvice() {
  }

  @Advice.OnMethodEnter
  static void enter(
        @HookName String hook, @Advice.This(optional = true) Object self,
        @Advice.AllArguments Object[] arguments) {
    Events.see(hook, self, arguments, null, null);
  }
}
