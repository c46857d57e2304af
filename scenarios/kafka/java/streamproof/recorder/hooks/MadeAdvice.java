package streamproof.recorder.hooks;

import net.bytebuddy.asm.Advice;
import streamproof.recorder.Events;

/** Is copied to the end of a constructor. */
public final class MadeAdvice {
  private MadeAdvice() {
  }

  @Advice.OnMethodExit
  static void exit(
        @HookName String hook, @Advice.This Object self, @Advice.AllArguments Object[] arguments) {
    Events.see(hook, self, arguments, null, null);
  }
}
